#include "lockstep/launch/supervisor.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "lockstep/base/fd.h"
#include "lockstep/base/process/child.h"
#include "lockstep/base/process/tree.h"
#include "lockstep/base/sockets/unix_socket.h"
#include "lockstep/launch/agent.h"
#include "lockstep/launch/agent_watch.h"
#include "lockstep/launch/time_limits.h"

namespace lockstep::launch {
namespace {

[[noreturn]] void become_agent(const Context& context, UniqueFd link) {
  ::setsid();
  ::prctl(PR_SET_NAME, "lockstep-agent");  // `killall lockstep` leaves one of the two alive.
  become_subreaper();
  ::_exit(run_agent(context, std::move(link)));
}

void say(const std::string& line) { write_all(STDERR_FILENO, "lockstep run: " + line + "\n"); }

}  // namespace

int supervise(const Context& context) {
  become_subreaper();
  auto [ours, theirs] = connected_pair("connecting the launcher to its agent");
  // Our death closes the link, but an agent that is stopped would not look.
  const pid_t agent = fork_child("starting the agent", SIGCONT, [&] {
                        ours.reset();
                        become_agent(context, std::move(theirs));
                      }).pid;
  theirs.reset();
  AgentWatch watch(agent, std::move(ours), *context.signals);
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
