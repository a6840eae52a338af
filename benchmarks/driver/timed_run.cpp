#include "benchmarks/driver/timed_run.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "benchmarks/driver/start_program.h"
#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/text/text.h"

namespace lockstep::bench {
namespace {

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
  const pid_t pid = start_program(command, {.err = errors.write_end.get()});
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

}  // namespace lockstep::bench
