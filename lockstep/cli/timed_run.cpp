#include "lockstep/cli/timed_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

[[noreturn]] void become(const std::vector<std::string>& command, int error_pipe) {
  const int null = ::open("/dev/null", O_RDWR);
  if (null < 0) {
    ::_exit(127);
  }
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  ::dup2(error_pipe, STDERR_FILENO);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const auto& part : command) {
    arguments.push_back(const_cast<char*>(part.c_str()));
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

// Reads until the command closed its stderr; false at the deadline.
bool drain(int fd, std::string& text, Deadline deadline) {
  char block[4096];
  for (;;) {
    pollfd waiting{fd, POLLIN, 0};
    if (::poll(&waiting, 1, deadline.poll_timeout()) <= 0) {
      return false;
    }
    const ssize_t got = ::read(fd, block, sizeof block);
    if (got <= 0) {
      return true;
    }
    text.append(block, static_cast<std::size_t>(got));
    if (text.size() > 8192) {
      text.erase(0, text.size() - 4096);
    }
  }
}

}  // namespace

double timed_run(const std::vector<std::string>& command, std::chrono::seconds limit) {
  Pipe errors = make_pipe();
  const auto start = Deadline::Clock::now();
  const pid_t pid = ::fork();
  if (pid < 0) {
    throw_errno("starting '" + command[0] + "'");
  }
  if (pid == 0) {
    become(command, errors.write_end.get());
  }
  errors.write_end.reset();
  std::string text;
  const bool ended = drain(errors.read_end.get(), text, Deadline::in(limit));
  if (!ended) {
    ::kill(pid, SIGKILL);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  const std::chrono::duration<double> took = Deadline::Clock::now() - start;
  if (!ended || status != 0) {
    throw Error("'" + join(command, " ") + "' " +
                (ended ? "failed" : "was not done after " + std::to_string(limit.count()) + " s") +
                ":\n" + text);
  }
  return took.count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace lockstep::cli
