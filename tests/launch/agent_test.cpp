#include "lockstep/launch/agent.h"

#include <gtest/gtest.h>

#include "job.h"
#include "lockstep/base/process_tree.h"

namespace lockstep::launch {
namespace {

// Runs an agent in a process of its own; `supervisor` is given its end of the pipe.
int run(const std::string& script, int workers,
        const std::function<void(pid_t, Pipe&)>& supervisor) {
  const TestFolder folder;
  Pipe pipe = make_pipe();
  const pid_t agent = ::fork();
  if (agent == 0) {
    pipe.write_end.reset();
    become_subreaper();
    const Signals signals({SIGTERM});
    Context context = shell_context(folder, signals, script, workers);
    context.folder.path = folder.path("run");
    ::_exit(run_agent(context, std::move(pipe.read_end)));
  }
  supervisor(agent, pipe);
  int status = 0;
  ::waitpid(agent, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void watch(pid_t, Pipe&) {}

TEST(Agent, ReturnsTheExitCodeOfTheJob) {
  EXPECT_EQ(run("true", 2, watch), 0);
  EXPECT_EQ(run("[ $RANK = 0 ] && exit 3; sleep 100", 2, watch), 3);
}

TEST(Agent, LeavesWhenItsSupervisorIsGone) {
  EXPECT_EQ(run("sleep 100", 2, [](pid_t, Pipe& pipe) { pipe.write_end.reset(); }), 128 + SIGKILL);
}

TEST(Agent, ASecondSignalEndsItAtOnce) {
  const auto twice = [](pid_t agent, Pipe&) {
    ::usleep(100000);
    ::kill(agent, SIGTERM);
    ::usleep(100000);
    ::kill(agent, SIGTERM);
  };
  EXPECT_EQ(run("trap '' TERM; while :; do sleep 1; done", 1, twice), 128 + SIGTERM);
}

}  // namespace
}  // namespace lockstep::launch
