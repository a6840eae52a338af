#include "benchmarks/driver/start_program.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "lockstep/base/fd.h"
#include "lockstep/base/process/child.h"

namespace lockstep::bench {
namespace {

[[noreturn]] void become(const std::vector<std::string>& command, const Streams& streams) {
  const int null = ::open("/dev/null", O_RDWR);
  if (null < 0) {
    ::_exit(127);
  }
  ::dup2(streams.in < 0 ? null : streams.in, STDIN_FILENO);
  ::dup2(streams.out < 0 ? null : streams.out, STDOUT_FILENO);
  ::dup2(streams.err < 0 ? null : streams.err, STDERR_FILENO);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const auto& part : command) {
    arguments.push_back(const_cast<char*>(part.c_str()));
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  write_all(STDERR_FILENO,
            "executing '" + command[0] + "': " + std::string(std::strerror(errno)) + "\n");
  ::_exit(127);
}

}  // namespace

pid_t start_program(const std::vector<std::string>& command, const Streams& streams) {
  return fork_child("starting '" + command[0] + "'", SIGTERM, [&] { become(command, streams); })
      .pid;
}

}  // namespace lockstep::bench
