#include "lockstep/train/session/dry_run.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "tests/train/toy_run.h"

namespace lockstep::train {
namespace {

TEST(DryRun, SaysWhichFolderARunWouldUseAndWritesNothing) {
  const toys::Folder folder;
  toys::Run run({.batch_size = 8, .output = folder.path + "/new"});
  dry_run(run.parts());
  EXPECT_THAT(run.said.back(), "the run would use the folder '" + folder.path +
                                   "/new/toy-net' and start with the first epoch");
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/new"));
  run.config.fast_dev_run = 1;
  dry_run(run.parts());
  EXPECT_EQ(run.said.back(), "nothing would be written");
}

TEST(DryRun, FailsWhereTheRunWould) {
  const toys::Folder folder;
  toys::Run run({.batch_size = 8, .output = "/proc/runs"});
  EXPECT_THAT([&] { dry_run(run.parts()); },
              ::testing::ThrowsMessage<IoError>(::testing::HasSubstr("so nothing would be saved")));
  run.config.output = folder.path;
  run.config.init_weights = folder.path + "/none.pt";
  EXPECT_THROW(dry_run(run.parts()), UsageError);
  run.config.eval_only = true;
  run.config.init_weights.clear();
  EXPECT_THAT(
      [&] { dry_run(run.parts()); },
      ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("--eval-only has no weights")));
}

}  // namespace
}  // namespace lockstep::train
