#include "tests/support/child.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "lockstep/base/fd.h"

namespace lockstep::test {
namespace {

[[noreturn]] void be_child(const std::function<int()>& body) noexcept {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    ::signal(signal, SIG_DFL);
  }
  ::_exit(body());
}

}  // namespace

pid_t fork_child(const std::function<int()>& body) {
  std::fflush(nullptr);  // Or the child would print what its parent has not printed yet.
  const pid_t pid = ::fork();
  if (pid < 0) {
    throw_errno("fork");
  }
  if (pid == 0) {
    be_child(body);
  }
  return pid;
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) {
      throw_errno("waitpid");
    }
  }
  return status;
}

int run_in_child(const std::function<int()>& body) { return wait_for(fork_child(body)); }

bool is_alive(pid_t pid) { return ::kill(pid, 0) == 0; }

}  // namespace lockstep::test
