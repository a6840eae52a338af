#include "lockstep/train/session/rank_logs.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/launch/node/log_layout.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::train {
namespace {

Environment of_launcher(const launch::RunFolder& folder) {
  return {{launch::kLogLink, launch::log_link(folder)},
          {"TORCHELASTIC_ERROR_FILE", folder.path + "/attempt_1/0/error.json"}};
}

TEST(RankLogs, TheLauncherFindsTheFolder) {
  const test::TemporaryFolder folder;
  const launch::RunFolder launcher{folder.file("lockstep_a")};
  for (const char* name : {"lockstep_a", "first", "second"}) {
    std::filesystem::create_directory(folder.file(name));
  }
  const auto environment = of_launcher(launcher);
  EXPECT_TRUE(launcher_keeps_logs(environment));
  EXPECT_FALSE(launcher_keeps_logs({}));
  for (const std::string& name : {folder.file("first"), folder.file("second")}) {
    EXPECT_EQ(keep_rank_logs_in(name, environment), name + "/lockstep_a/attempt_1/0/stdout.log");
    EXPECT_EQ(launch::linked_file(launcher, 1, 0, &launch::WorkerFiles::out),
              name + "/lockstep_a/attempt_1/0/stdout.log");
  }
}

TEST(RankLogs, ALauncherThatIsGoneIsAnError) {
  EXPECT_THROW(keep_rank_logs_in("/tmp", of_launcher({"/no/such/folder"})), IoError);
}

}  // namespace
}  // namespace lockstep::train
