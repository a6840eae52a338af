#include "lockstep/launch/supervisor.h"

#include <gtest/gtest.h>

#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

int exit_code_of_script(const std::string& script) {
  const test::TemporaryFolder folder;
  return exit_code_of([&] {
    const Signals signals({SIGTERM, SIGHUP});
    Context context = shell_context(folder, signals, script);
    context.folder = {folder.file("run"), true};
    const int code = supervise(context);
    return std::filesystem::exists(context.folder.path) ? 99 : code;
  });
}

TEST(Supervise, ReturnsTheExitCodeAndRemovesTheFolder) {
  EXPECT_EQ(exit_code_of_script("true"), 0);
  EXPECT_EQ(exit_code_of_script("exit 3"), 3);
}

TEST(Supervise, SurvivesTheDeathOfTheAgent) {
  EXPECT_EQ(exit_code_of_script("kill -9 $PPID; sleep 100"), 128 + SIGKILL);
}

TEST(Supervise, PassesSignalsOn) {
  EXPECT_EQ(exit_code_of_script("kill -TERM $(cut -d' ' -f4 /proc/$PPID/stat); sleep 100"),
            128 + SIGTERM);
}

TEST(Supervise, ASignalToTheWholeControlGroupGivesTheWorkersTheirTime) {
  const test::TemporaryFolder folder;
  const std::string orderly =
      "trap 'sleep 0.5; touch " + folder.file("orderly") + "; exit 0' TERM; ";
  const std::string to_both = "kill -TERM $PPID $(cut -d' ' -f4 /proc/$PPID/stat); ";
  EXPECT_EQ(exit_code_of_script(orderly + to_both + "while :; do sleep 0.01; done"), 128 + SIGTERM);
  EXPECT_TRUE(std::filesystem::exists(folder.file("orderly")));
}

TEST(Supervise, ATerminalThatHangsUpTwiceGivesTheWorkersTheirTime) {
  const test::TemporaryFolder folder;
  const std::string orderly =
      "trap 'sleep 0.5; touch " + folder.file("orderly") + "; exit 0' HUP; ";
  const std::string twice =
      "for i in 1 2 3; do kill -HUP $(cut -d' ' -f4 /proc/$PPID/stat); sleep 0.1; done; ";
  EXPECT_EQ(exit_code_of_script(orderly + twice + "while :; do sleep 0.01; done"), 128 + SIGHUP);
  EXPECT_TRUE(std::filesystem::exists(folder.file("orderly")));
}

}  // namespace
}  // namespace lockstep::launch
