// A child process that does nothing until it is killed.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace lockstep::test {

// Killed and reaped when the test is done with it.
class IdleProcess {
 public:
  IdleProcess() : pid_(::fork()) {
    if (pid_ == 0) {
      while (true) {
        ::pause();
      }
    }
  }
  ~IdleProcess() {
    kill();
    reap();
  }
  IdleProcess(const IdleProcess&) = delete;
  IdleProcess& operator=(const IdleProcess&) = delete;

  // Nothing after reap(): the pid may be another's then.
  void kill() const {
    if (!reaped_) {
      ::kill(pid_, SIGKILL);
    }
  }
  void reap() {
    if (!reaped_) {
      ::waitpid(pid_, nullptr, 0);
      reaped_ = true;
    }
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
  bool reaped_ = false;
};

}  // namespace lockstep::test
