#include "lockstep/launch/supervisor.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "lockstep/base/child_process.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/process_tree.h"
#include "lockstep/launch/agent.h"
#include "lockstep/launch/time_limits.h"

namespace lockstep::launch {
namespace {

struct Link {
  UniqueFd supervisor;
  UniqueFd agent;
};

Link make_link() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw_errno("connecting the launcher to its agent");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

[[noreturn]] void become_agent(const Context& context, Link link) {
  ::setsid();
  ::prctl(PR_SET_NAME, "lockstep-agent");  // `killall lockstep` leaves one of the two alive.
  become_subreaper();
  link.supervisor.reset();
  ::_exit(run_agent(context, std::move(link.agent)));
}

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

// Waits for the agent and passes signals on.
class AgentWatch {
 public:
  AgentWatch(pid_t agent, UniqueFd link, const Signals& signals)
      : agent_(agent), link_(std::move(link)), signals_(signals) {}

  // The agent's status; nothing if it did not end in time.
  std::optional<int> wait() {
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

  // The exit code that the agent has announced, also if it did not live to return it.
  [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }

 private:
  void on_signal(int signal) {
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

  void read_exit_code() {
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

  pid_t agent_;
  UniqueFd link_;
  const Signals& signals_;
  int asked_to_end_ = 0;
  std::optional<Deadline> deadline_;
  std::optional<int> exit_code_;
  std::optional<int> status_;
};

void say(const std::string& line) { write_all(STDERR_FILENO, "lockstep run: " + line + "\n"); }

}  // namespace

int supervise(const Context& context) {
  become_subreaper();
  Link link = make_link();
  // Our death closes the link, but an agent that is stopped would not look.
  const pid_t agent = fork_child("starting the agent", SIGCONT, [&] {
                        become_agent(context, std::move(link));
                      }).pid;
  link.agent.reset();
  AgentWatch watch(agent, std::move(link.supervisor), *context.signals);
  const auto status = watch.wait();
  const bool all_gone = kill_descendants(Deadline::in(kAgentsEndIn));
  context.folder.remove_if_temporary();
  if (!all_gone) {
    say("some processes cannot be killed (stuck in the kernel?)");
  }
  if (status && WIFEXITED(*status)) {
    return WEXITSTATUS(*status);
  }
  if (watch.exit_code()) {
    return *watch.exit_code();
  }
  const int signal = status ? WTERMSIG(*status) : SIGKILL;
  say("the launcher's agent (pid " + std::to_string(agent) + ") was ended by " +
      signal_name(signal) + "; all workers were killed");
  return 128 + signal;
}

}  // namespace lockstep::launch
