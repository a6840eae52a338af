#include "lockstep/launch/agent.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "lockstep/base/process/tree.h"
#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

// Runs an agent in a process of its own; `supervisor` is given its end of the link.
int run_script(const std::string& script, int workers,
               const std::function<void(pid_t, UniqueFd&)>& supervisor) {
  const test::TemporaryFolder folder;
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd here(ends[0]);
  UniqueFd there(ends[1]);
  const pid_t agent = ::fork();
  if (agent == 0) {
    here.reset();
    become_subreaper();
    const Signals signals({SIGTERM});
    Context context = shell_context(folder, signals, script, workers);
    context.folder.path = folder.file("run");
    ::_exit(run_agent(context, std::move(there)));
  }
  there.reset();
  supervisor(agent, here);
  int status = 0;
  ::waitpid(agent, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void watch(pid_t, UniqueFd&) {}

TEST(Agent, ReturnsTheExitCodeOfTheJob) {
  EXPECT_EQ(run_script("true", 2, watch), 0);
  EXPECT_EQ(run_script("[ $RANK = 0 ] && exit 3; sleep 100", 2, watch), 3);
}

TEST(Agent, LeavesWhenItsSupervisorIsGone) {
  EXPECT_EQ(run_script("sleep 100", 2, [](pid_t, UniqueFd& link) { link.reset(); }), 128 + SIGKILL);
}

TEST(Agent, ASecondSignalEndsItAtOnce) {
  const auto twice = [](pid_t agent, UniqueFd&) {
    ::usleep(100000);
    ::kill(agent, SIGTERM);
    ::usleep(100000);
    ::kill(agent, SIGTERM);
  };
  EXPECT_EQ(run_script("trap '' TERM; while :; do sleep 1; done", 1, twice), 128 + SIGTERM);
}

// The number of a byte that comes within 10 s, else -1.
int next_byte(const UniqueFd& link) {
  pollfd waiting{link.get(), POLLIN, 0};
  unsigned char byte = 0;
  return ::poll(&waiting, 1, 10000) == 1 && ::read(link.get(), &byte, 1) == 1 ? byte : -1;
}

TEST(Agent, TellsTheExitCodeBeforeItEnds) {
  int told = -1;
  EXPECT_EQ(run_script("exit 5", 1, [&](pid_t, UniqueFd& link) { told = next_byte(link); }), 5);
  EXPECT_EQ(told, 5);
}

TEST(Agent, OneSignalByTwoPathsCountsOnce) {
  const test::TemporaryFolder folder;
  const auto both = [&](pid_t agent, UniqueFd& link) {
    EXPECT_TRUE(wait_for_file(folder.file("up")));
    ::kill(agent, SIGTERM);
    write_all(link.get(), std::string(1, static_cast<char>(SIGTERM)));
  };
  const std::string orderly = "trap 'sleep 0.5; touch " + folder.file("orderly") +
                              "; exit 0' TERM; touch " + folder.file("up") +
                              "; while :; do sleep 0.01; done";
  EXPECT_EQ(run_script(orderly, 1, both), 128 + SIGTERM);
  EXPECT_TRUE(std::filesystem::exists(folder.file("orderly"))) << "it was not given its time";
}

TEST(Agent, ASecondSignalOfTheSupervisorEndsItAtOnce) {
  const test::TemporaryFolder folder;
  const auto twice = [&](pid_t, UniqueFd& link) {
    EXPECT_TRUE(wait_for_file(folder.file("up")));
    write_all(link.get(), std::string(2, static_cast<char>(SIGTERM)));
    EXPECT_EQ(next_byte(link), 128 + SIGTERM);
  };
  EXPECT_EQ(run_script("trap '' TERM; touch " + folder.file("up") + "; while :; do sleep 1; done",
                       1, twice),
            128 + SIGTERM);
}

}  // namespace
}  // namespace lockstep::launch
