#include "lockstep/launch/supervisor.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "lockstep/base/fd.h"
#include "lockstep/base/process/child.h"
#include "lockstep/base/process/tree.h"
#include "lockstep/launch/agent.h"
#include "lockstep/launch/agent_watch.h"
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
