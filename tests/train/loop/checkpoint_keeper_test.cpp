#include "lockstep/train/loop/checkpoint_keeper.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <fstream>

#include "tests/checkpoint/faulty_files.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

TEST(CheckpointKeeper, Saves) {
  const toys::Folder folder;
  CheckpointKeeper keeper(folder.path + "/checkpoints",
                          {.on_warning = [](const std::string& text) { FAIL() << text; }});
  keeper.save({.model = {{"weight", at::ones({2})}}}, {.best = true});
  EXPECT_TRUE(keeper.finish());
  EXPECT_TRUE(std::filesystem::exists(folder.path + "/checkpoints/best.pt"));
}

TEST(CheckpointKeeper, WarnsOfADiskThatFailsAndGoesOn) {
  const toys::Folder folder;
  std::ofstream(folder.path + "/checkpoints") << "no folder";
  std::vector<std::string> warnings;
  CheckpointKeeper keeper(
      folder.path + "/checkpoints",
      {.on_warning = [&](const std::string& text) { warnings.push_back(text); }});
  keeper.save({.model = {{"weight", at::ones({2})}}}, {});
  EXPECT_FALSE(keeper.finish());
  EXPECT_THAT(warnings, ::testing::ElementsAre(::testing::HasSubstr("training goes on")));
  std::filesystem::remove(folder.path + "/checkpoints");
  keeper.save({.model = {{"weight", at::ones({2})}}}, {});
  EXPECT_TRUE(keeper.finish());
}

TEST(CheckpointKeeper, AnErrorOfTheOneBeforeIsNotThatOfTheLast) {
  const toys::Folder folder;
  const auto in_the_way = folder.path + "/checkpoints/last.pt";
  int warnings = 0;
  CheckpointKeeper keeper(folder.path + "/checkpoints",
                          {.on_warning = [&](const std::string& /*text*/) {
                            ++warnings;
                            std::filesystem::remove_all(in_the_way);
                          }});
  std::filesystem::create_directories(in_the_way + "/folder");
  std::filesystem::permissions(folder.path + "/checkpoints", std::filesystem::perms::owner_all);
  const Checkpoint checkpoint{.model = {{"weight", at::ones({2})}}};
  keeper.save(checkpoint, {});
  keeper.save(checkpoint, {});  // Is told that the one before failed.
  EXPECT_EQ(warnings, 1);
  EXPECT_TRUE(keeper.finish());
  EXPECT_TRUE(std::filesystem::is_regular_file(in_the_way));
}

int operations_of_two_saves(checkpoint::FaultyFiles& files, bool strict) {
  const toys::Folder folder;
  std::vector<std::string> warnings;
  CheckpointKeeper keeper(folder.path + "/checkpoints",
                          {.on_warning = [&](const std::string& text) { warnings.push_back(text); },
                           .strict = strict,
                           .files = &files});
  for (const float version : {1.F, 2.F}) {
    keeper.save({.model = {{"weight", at::full({2}, version)}}}, {.best = true});
  }
  EXPECT_TRUE(keeper.finish());
  EXPECT_THAT(warnings, ::testing::IsEmpty());
  const auto loaded = load_checkpoint(folder.path + "/checkpoints");
  EXPECT_EQ(loaded.checkpoint.model.at(0).second[0].item<float>(), 2);
  EXPECT_EQ(loaded.reason, "");
  return files.operations();
}

TEST(CheckpointKeeper, WhateverFailsOnceIsTriedAgain) {
  for (const bool strict : {false, true}) {
    checkpoint::FaultyFiles none;
    const int operations = operations_of_two_saves(none, strict);
    ASSERT_GT(operations, 40);
    for (int at = 0; at < operations; ++at) {
      SCOPED_TRACE("operation " + std::to_string(at) + (strict ? ", strict" : ""));
      checkpoint::FaultyFiles files(at, checkpoint::Fault::kInputOutput);
      operations_of_two_saves(files, strict);
    }
  }
}

TEST(CheckpointKeeper, IfStrictADiskThatFailsIsAnError) {
  const toys::Folder folder;
  const auto in_the_way = folder.path + "/checkpoints/last.pt";
  CheckpointKeeper keeper(
      folder.path + "/checkpoints",
      {.on_warning = [](const std::string& text) { FAIL() << text; }, .strict = true});
  const Checkpoint checkpoint{.model = {{"weight", at::ones({2})}}};
  keeper.save(checkpoint, {});
  std::filesystem::remove(in_the_way);
  std::filesystem::create_directories(in_the_way + "/folder");
  EXPECT_THAT([&] { keeper.save(checkpoint, {}); },
              ::testing::ThrowsMessage<IoError>(
                  ::testing::AllOf(::testing::HasSubstr("--strict: a checkpoint was not saved"),
                                   ::testing::HasSubstr("last.pt"))));
  EXPECT_FALSE(keeper.finish());
}

}  // namespace
}  // namespace lockstep::train
