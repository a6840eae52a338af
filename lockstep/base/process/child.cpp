#include "lockstep/base/process/child.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "lockstep/base/process/tree.h"

namespace lockstep {

// Nothing is allocated in the child before `run`: another thread may have held malloc's lock.
ChildProcess fork_child(const std::string& what, int at_our_death,
                        const std::function<void()>& run) {
  constexpr int kNotStarted = 126;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (die_with_parent(at_our_death, parent)) {
      run();
    }
    ::_exit(kNotStarted);
  }
  if (pid < 0) {
    throw_errno(what);
  }
  return {pid, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))};
}

}  // namespace lockstep
