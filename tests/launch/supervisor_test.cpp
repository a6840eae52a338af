#include "lockstep/launch/supervisor.h"

#include <gtest/gtest.h>

#include "job.h"

namespace lockstep::launch {
namespace {

int exit_code_of_script(const std::string& script) {
  const TestFolder folder;
  return exit_code_of([&] {
    const Signals signals({SIGTERM});
    Context context = shell_context(folder, signals, script);
    context.folder = {folder.path("run"), true};
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

}  // namespace
}  // namespace lockstep::launch
