// Where the output of workers goes: torchrun's folder layout and its line prefixes.
//
//   <log dir>/<run id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}
//
// Folders are 0700 and files 0600. Without --log-dir the same tree is temporary.
#pragma once

#include <string>

#include "lockstep/launch/command/options.h"

namespace lockstep::launch {

// The folder of one run. Its name is chosen before the launcher forks, and the folder is made
// afterwards. So both processes know what to remove, even if one of them dies.
struct RunFolder {
  std::string path;
  bool temporary = false;

  // Throws UsageError if it cannot be made.
  void make() const;
  // To be called by the process that outlives the run.
  void remove_if_temporary() const;
  // Why its files cannot grow: "No space left on device". Empty if they can, judging by a small
  // test file that is removed again.
  [[nodiscard]] std::string why_full() const;
};

// Chooses a new name. The folder is temporary unless --log-dir was given or a stream goes to files
// only (--redirects), which would be lost. Throws UsageError naming a --log-dir that cannot be
// used.
RunFolder choose_run_folder(const RunOptions& options, const Environment& environment);

// The variable by which a worker learns log_link().
inline constexpr const char* kLogLink = "LOCKSTEP_LOG_LINK";

// For a program that chooses its folder only when it runs: it makes a symbolic link of this name to
// a folder in which logs are to be kept. Until then the launcher keeps their ends in memory.
std::string log_link(const RunFolder& folder);
// What happens to one stream of one worker.
struct StreamRoute {
  bool file = false;     // Written to its log file.
  bool late = false;     // Written to its linked_file(), once there is one.
  bool console = false;  // Shown by the launcher.
  bool prefixed = false;

  // The worker may use the launcher's own stream, because nobody needs to see the bytes.
  [[nodiscard]] bool direct() const { return console && !file && !late && !prefixed; }
  // The worker writes to the log file itself, so a slow disk holds up nobody else.
  [[nodiscard]] bool straight_to_file() const { return file && !console; }
};

struct WorkerRoutes {
  StreamRoute out;
  StreamRoute err;

  [[nodiscard]] bool straight_to_file() const {
    return out.straight_to_file() || err.straight_to_file();
  }
};

// If a worker names the folder of logs, local rank 0 keeps the console's stdout for itself, because
// it may be a terminal with a progress line.
WorkerRoutes routes_of(const LogOptions& logs, int local_rank);

struct WorkerFiles {
  std::string out;
  std::string err;
  std::string error;
};

// Makes the folder of one worker and says what its files are called. Throws IoError.
WorkerFiles make_worker_folder(const RunFolder& folder, int attempt, int local_rank);

// The file of one stream of one worker where log_link() leads, below the same names as here. Makes
// its folders. Empty while there is no link. Throws IoError.
std::string linked_file(const RunFolder& folder, int attempt, int local_rank,
                        std::string WorkerFiles::* stream);

struct PrefixNames {
  std::string role;
  int rank = 0;
  int local_rank = 0;
  std::string host;
};

// Python's string.Template with safe_substitute: ${role_name}, ${local_rank}, ${rank},
// ${hostname}, with or without braces; $$ is a dollar; unknown names stay as they are.
std::string expand_prefix(const std::string& text, const PrefixNames& names);

}  // namespace lockstep::launch
