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

TEST(CheckpointKeeper, AnErrorOfTheOneBeforeIsNotThatOfTheLast) {
  const toys::Folder folder;
  const auto in_the_way = folder.path + "/checkpoints/last.pt";
  int warnings = 0;
  CheckpointKeeper keeper(folder.path + "/checkpoints", [&](const std::string& /*text*/) {
    ++warnings;
    std::filesystem::remove_all(in_the_way);
  });
  std::filesystem::create_directories(in_the_way + "/folder");
  std::filesystem::permissions(folder.path + "/checkpoints", std::filesystem::perms::owner_all);
  const Checkpoint checkpoint{.model = {{"weight", at::ones({2})}}};
  keeper.save(checkpoint, {});
  keeper.save(checkpoint, {});  // Is told that the one before failed.
  EXPECT_EQ(warnings, 1);
  EXPECT_TRUE(keeper.finish());
  EXPECT_TRUE(std::filesystem::is_regular_file(in_the_way));
}

}  // namespace
}  // namespace lockstep::train
