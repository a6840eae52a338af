#include "lockstep/launch/supervisor.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "lockstep/base/fd.h"
#include "lockstep/base/process_tree.h"
#include "lockstep/launch/agent.h"

namespace lockstep::launch {
namespace {

// After a second signal the agent kills everything itself; this is for an agent that cannot.
constexpr std::chrono::milliseconds kAgentPatience{1000};
constexpr std::chrono::seconds kAgentsEndIn{5};

[[noreturn]] void become_agent(const Context& context, Pipe pipe) {
  ::setsid();
  // Our death closes the pipe, but an agent that is stopped would not look.
  die_with_parent(SIGCONT, ::getppid());
  ::prctl(PR_SET_NAME, "lockstep-agent");  // `killall lockstep` leaves one of the two alive.
  become_subreaper();
  pipe.write_end.reset();
  ::_exit(run_agent(context, std::move(pipe.read_end)));
}

// The agent's status once it has ended; orphans that came to us are reaped on the way.
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

// Waits for the agent, passing signals on. Nothing if it did not end in time.
std::optional<int> wait_for(pid_t agent, const Signals& signals) {
  int received = 0;
  std::optional<Deadline> deadline;
  while (!deadline || !deadline->passed()) {
    pollfd readable{signals.fd(), POLLIN, 0};
    ::poll(&readable, 1, deadline ? deadline->poll_timeout() : -1);
    while (const auto signal = signals.next()) {
      if (*signal == SIGCHLD) {
        if (const auto status = reap(agent)) {
          return status;
        }
        continue;
      }
      ::kill(agent, *signal);
      if (++received == 2) {
        deadline = Deadline::in(kAgentPatience);
      }
    }
  }
  return std::nullopt;
}

void say(const std::string& line) { write_all(STDERR_FILENO, "lockstep run: " + line + "\n"); }

}  // namespace

int supervise(const Context& context) {
  become_subreaper();
  Pipe pipe = make_pipe();
  const pid_t agent = ::fork();
  if (agent < 0) {
    throw_errno("starting the agent");
  }
  if (agent == 0) {
    become_agent(context, std::move(pipe));
  }
  pipe.read_end.reset();
  const auto status = wait_for(agent, *context.signals);
  const bool all_gone = kill_descendants(Deadline::in(kAgentsEndIn));
  context.folder.remove_if_temporary();
  if (!all_gone) {
    say("some processes cannot be killed (stuck in the kernel?)");
  }
  if (status && WIFEXITED(*status)) {
    return WEXITSTATUS(*status);
  }
  const int signal = status ? WTERMSIG(*status) : SIGKILL;
  say("the launcher's agent (pid " + std::to_string(agent) + ") was ended by " +
      signal_name(signal) + "; all workers were killed");
  return 128 + signal;
}

}  // namespace lockstep::launch
