#include "lockstep/launch/agent_watch.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <csignal>

#include "lockstep/launch/time_limits.h"

namespace lockstep::launch {
namespace {

// The agent's status once it has ended. Also reaps orphans that became our children.
std::optional<int> reap(pid_t agent) {
  std::optional<int> result;
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid == agent) {
      result = status;
    }
  }
  return result;
}

}  // namespace

std::optional<int> AgentWatch::wait() {
  while (!status_ && !(deadline_ && deadline_->passed())) {
    pollfd ready[] = {{signals_.fd(), POLLIN, 0}, {link_.get(), POLLIN, 0}};
    ::poll(ready, link_ ? 2 : 1, deadline_ ? deadline_->poll_timeout() : -1);
    if (link_ && ready[1].revents != 0) {
      read_exit_code();
    }
    while (const auto signal = signals_.next()) {
      on_signal(*signal);
    }
  }
  return status_;
}

void AgentWatch::on_signal(int signal) {
  if (signal == SIGCHLD) {
    status_ = status_ ? status_ : reap(agent_);
    return;
  }
  // Sent over the link, because the kernel merges two equal pending signals of a process.
  const char number = static_cast<char>(signal);
  if (link_) {
    ::send(link_.get(), &number, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (signals_.ends_job(signal) && signal != SIGHUP && ++asked_to_end_ == 2) {
    deadline_ = Deadline::in(exit_code_ ? kTidyPatience : kAgentPatience);
  }
}

void AgentWatch::read_exit_code() {
  unsigned char code = 0;
  if (::recv(link_.get(), &code, 1, MSG_DONTWAIT) != 1) {
    link_.reset();  // It has ended; its status follows.
    return;
  }
  exit_code_ = code;
  if (deadline_) {
    deadline_ = Deadline::in(kTidyPatience);
  }
}

}  // namespace lockstep::launch
