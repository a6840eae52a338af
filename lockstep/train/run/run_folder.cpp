#include "lockstep/train/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lockstep/base/error.h"
#include "lockstep/train/run/lock_holder.h"
#include "lockstep/train/run/run_names.h"

namespace lockstep::train {
namespace {

constexpr const char* kFinished = "finished";
constexpr const char* kJob = "job";
constexpr mode_t kPrivateFolder = 0700;
constexpr mode_t kPrivateFile = 0600;

// Every part of the path that is not there. False, with errno, if one cannot be made.
bool make_folders(const std::string& path) {
  std::filesystem::path made;
  for (const auto& part : std::filesystem::path(path)) {
    made /= part;
    const int failed = ::mkdir(made.c_str(), kPrivateFolder) == 0 ? 0 : errno;
    std::error_code unknown;
    if (failed != 0 && failed != EEXIST && !std::filesystem::is_directory(made, unknown)) {
      errno = failed;
      return false;
    }
  }
  return true;
}

UniqueFd open_folder(const std::string& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) {
    const bool other = errno == ELOOP || errno == ENOTDIR;
    throw_errno("opening the run folder '" + path + "'" +
                (other ? " (a link or a file; expected a folder, so remove or rename it)" : ""));
  }
  struct stat status{};
  if (::fstat(folder.get(), &status) != 0) {
    throw_errno("looking at the run folder '" + path + "'");
  }
  if ((status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0) {
    throw IoError("the run folder '" + path +
                  "' can be written by everyone, who could replace what a resumed run reads; chmod "
                  "o-w it");
  }
  return folder;
}

bool has_mark(int folder) {
  struct stat status{};
  return ::fstatat(folder, kFinished, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace

std::string job_of(const std::string& folder) {
  std::ifstream file(folder + "/" + kJob, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string newest_run_of_job(const std::string& root, const std::string& name,
                              const std::string& job) {
  for (const auto number : numbers_of_folders(root, name)) {
    const auto run = root + "/" + numbered_run(name, number);
    if (job_of(run) == job) {
      return run;
    }
  }
  return "";
}

RunFolder RunFolder::open_existing(const std::string& path) {
  RunFolder run;
  run.path_ = path;
  run.folder_ = open_folder(path);
  run.lock_or_throw();
  run.is_finished_ = has_mark(run.folder_.get());
  run.is_resumed_ = !run.is_finished_;
  return run;
}

RunFolder RunFolder::open(const RunFolderOptions& options) {
  const auto path_of = [&](std::int64_t number) {
    return options.root + "/" + numbered_run(options.name, number);
  };
  std::int64_t number = 0;
  for (const auto found : numbers_of_folders(options.root, options.name)) {
    const bool is_run = !is_left_over(path_of(found));
    if (options.resume) {
      // Only the process that holds a folder can say whether its run is finished. A folder that
      // looks left over may belong to a start that is under way; open_existing() then refuses this
      // start.
      RunFolder newest = open_existing(path_of(found));
      if (is_run && !newest.is_finished()) {
        return newest;
      }
    }
    if (is_run) {
      number = found;
      break;
    }
  }
  RunFolder run;
  if (!make_folders(options.root)) {
    run.path_ = path_of(number + 1);
    run.why_not_made_ = std::strerror(errno);
    return run;
  }
  // Others may make folders at the same time: each gets one of its own. A file system on which no
  // new folder is empty would take one after the other.
  constexpr int kMostTries = 1000;
  int tries = 0;
  do {
    run.path_ = path_of(++number);
    const bool is_made = ::mkdir(run.path_.c_str(), kPrivateFolder) == 0;
    const int error = is_made ? 0 : errno;
    // Without locks, another start would take the folder of one that is under way. --resume no is
    // what the second of two is told to say.
    if (is_made || (options.resume && error == EEXIST && is_left_over(run.path_))) {
      run.folder_ = open_folder(run.path_);
      if (run.try_lock() && is_left_over(run.path_) && (is_made || run.can_write())) {
        return run;
      }
      run.folder_.reset();
    }
    errno = is_made ? EEXIST : error;
  } while (errno == EEXIST && ++tries < kMostTries);
  run.why_not_made_ = std::strerror(errno);
  return run;
}

// A process that was forked meanwhile has the descriptor, too, and would keep the lock.
RunFolder::~RunFolder() {
  if (folder_) {
    ::flock(folder_.get(), LOCK_UN);
  }
}

// Where the file system has no locks there is none.
bool RunFolder::try_lock() const {
  int failed = 0;
  do {
    failed = ::flock(folder_.get(), LOCK_EX | LOCK_NB);
  } while (failed != 0 && errno == EINTR);
  return failed == 0 || errno != EWOULDBLOCK;
}

void RunFolder::lock_or_throw() const {
  if (!try_lock()) {
    const pid_t holder = lock_holder(folder_.get());
    throw UsageError("the run '" + path_ + "' is in use by " +
                     (holder > 0 ? "process " + std::to_string(holder) : "another process") +
                     ", expected one process for a run; HINT: wait for its end, or start another "
                     "run with --resume no");
  }
}

std::string RunFolder::why_not() const {
  const auto because = [&](const std::string& reason) {
    return "the run folder '" + path_ + "' cannot be written: " + reason;
  };
  if (!folder_) {
    return because(why_not_made_);
  }
  struct stat ours{};
  struct stat named{};
  if (::fstat(folder_.get(), &ours) != 0 || ::lstat(path_.c_str(), &named) != 0) {
    return because(std::strerror(errno));
  }
  if (ours.st_ino != named.st_ino || ours.st_dev != named.st_dev) {
    return because("another one has taken its place");
  }
  if (::faccessat(folder_.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    return because(std::strerror(errno));
  }
  return "";
}

std::string RunFolder::moved_to() const {
  struct stat ours{};
  struct stat named{};
  if (!folder_ || ::fstat(folder_.get(), &ours) != 0) {
    return "";
  }
  if (::lstat(path_.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
      ours.st_dev == named.st_dev) {
    return "";
  }
  std::error_code error;
  const auto link = "/proc/self/fd/" + std::to_string(folder_.get());
  const auto now = std::filesystem::read_symlink(link, error);
  // It is no path if the folder was removed: "/runs/a (deleted)".
  return std::filesystem::exists(now, error) ? now.string() : "";
}

std::string RunFolder::make_subfolder(const std::string& name) const {
  std::string path = file(name);
  if (!folder_) {
    throw IoError(why_not());
  }
  struct stat status{};
  if (::mkdirat(folder_.get(), name.c_str(), kPrivateFolder) != 0 && errno != EEXIST) {
    throw_errno("making the folder '" + path + "'");
  }
  if (::fstatat(folder_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    throw_errno("looking at the folder '" + path + "'");
  }
  if (!S_ISDIR(status.st_mode)) {
    throw IoError("'" + path + "' is a link or a file, expected a folder; remove or rename it");
  }
  return path;
}

void RunFolder::mark_finished() {
  if (!folder_) {
    throw IoError(why_not());
  }
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  const UniqueFd mark(::openat(folder_.get(), kFinished, flags, kPrivateFile));
  if (!mark || ::fsync(mark.get()) != 0 || ::fsync(folder_.get()) != 0) {
    throw_errno("writing '" + file(kFinished) + "', which says that the run is finished");
  }
  is_finished_ = true;
}

void RunFolder::mark_unfinished() {
  if (!is_finished_) {
    return;
  }
  if ((::unlinkat(folder_.get(), kFinished, 0) != 0 && errno != ENOENT) ||
      ::fsync(folder_.get()) != 0) {
    throw_errno("removing '" + file(kFinished) + "', because the run goes on");
  }
  is_finished_ = false;
  is_resumed_ = true;
}

void RunFolder::set_job(const std::string& job) const {
  if (!folder_) {
    throw IoError(why_not());
  }
  if (job_of(path_) == job) {
    return;
  }
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
  const UniqueFd written(::openat(folder_.get(), kJob, flags, kPrivateFile));
  if (!written || !write_all(written.get(), job)) {
    throw_errno("writing '" + file(kJob) + "', by which a restarted job finds its run");
  }
}

}  // namespace lockstep::train
