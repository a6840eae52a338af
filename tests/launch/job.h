// A small launcher context for tests: one shell command as the program, a folder of its own.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/launch/context.h"
#include "lockstep/launch/network/leader.h"
#include "lockstep/launch/node/worker_group.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {

// Two files in place of the terminal.
class TestConsoles {
 public:
  explicit TestConsoles(const test::TemporaryFolder& folder)
      : folder_(folder),
        out_(create_log_file(folder.file("console.out"))),
        err_(create_log_file(folder.file("console.err"))),
        consoles_{Console(out_.get()), Console(err_.get())} {}

  Consoles& get() { return consoles_; }
  [[nodiscard]] std::string out() const { return folder_.read("console.out"); }
  [[nodiscard]] std::string err() const { return folder_.read("console.err"); }

 private:
  const test::TemporaryFolder& folder_;
  UniqueFd out_;
  UniqueFd err_;
  Consoles consoles_;
};

// `signals` must outlive the context.
inline Context shell_context(const test::TemporaryFolder& folder, const Signals& signals,
                             const std::string& script, int workers = 1) {
  Context context;
  context.options.workers = workers;
  context.options.nodes.rank = 0;
  context.options.nodes.name = "testhost";
  context.options.run_id = "test";
  context.options.command = {"sh", "-c", script};
  context.environment = Environment::of_this_process();
  context.program = {"/bin/sh", {"sh", "-c", script}};
  context.folder = {folder.path, false};
  context.signals = &signals;
  return context;
}

inline Start start_command(int workers = 1) {
  Start start;
  start.plan.run_id = "test";
  start.plan.nodes = {{"testhost", workers, "default"}};
  start.plan.master_addr = "127.0.0.1";
  start.plan.master_port = 1;
  return start;
}

// False if there is no such file within 10 s.
inline bool wait_for_file(const std::string& path) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(10));
  while (!std::filesystem::exists(path) && !deadline.passed()) {
    ::usleep(1000);
  }
  return std::filesystem::exists(path);
}

// Runs `body` in a forked process and returns how it ended, as a shell would say it.
inline int exit_code_of(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace lockstep::launch
