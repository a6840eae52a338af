#include "lockstep/train/loop/checkpoint_keeper.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <fstream>

#include "tests/train/loop/toys.h"

namespace lockstep::train {
namespace {

TEST(CheckpointKeeper, Saves) {
  const toys::Folder folder;
  CheckpointKeeper keeper(folder.path + "/checkpoints",
                          [](const std::string& text) { FAIL() << text; });
  keeper.save({.model = {{"weight", at::ones({2})}}}, {.best = true});
  EXPECT_TRUE(keeper.finish());
  EXPECT_TRUE(std::filesystem::exists(folder.path + "/checkpoints/best.pt"));
}

TEST(CheckpointKeeper, WarnsOfADiskThatFailsAndGoesOn) {
  const toys::Folder folder;
  std::ofstream(folder.path + "/checkpoints") << "no folder";
  std::vector<std::string> warnings;
  CheckpointKeeper keeper(folder.path + "/checkpoints",
                          [&](const std::string& text) { warnings.push_back(text); });
  keeper.save({.model = {{"weight", at::ones({2})}}}, {});
  EXPECT_FALSE(keeper.finish());
  EXPECT_THAT(warnings, testing::ElementsAre(testing::HasSubstr("training goes on")));
  std::filesystem::remove(folder.path + "/checkpoints");
  keeper.save({.model = {{"weight", at::ones({2})}}}, {});
  EXPECT_TRUE(keeper.finish());
}

}  // namespace
}  // namespace lockstep::train
