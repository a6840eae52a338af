#include "lockstep/base/text/nearest.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using ::testing::Eq;
using ::testing::Optional;

TEST(EditDistance, CountsLettersThatAreAddedRemovedChangedOrSwapped) {
  EXPECT_EQ(edit_distance("train", "train"), 0U);
  EXPECT_EQ(edit_distance("tran", "train"), 1U);
  EXPECT_EQ(edit_distance("traiin", "train"), 1U);
  EXPECT_EQ(edit_distance("drain", "train"), 1U);
  EXPECT_EQ(edit_distance("trian", "train"), 1U);
  EXPECT_EQ(edit_distance("", "train"), 5U);
  EXPECT_EQ(edit_distance("train", ""), 5U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("ca", "abc"), 3U) << "no letter is moved twice";
}

TEST(NearestName, IsTheOneThatDiffersLeast) {
  const std::vector<std::string> commands{"bench", "doctor", "inspect", "run", "train"};
  EXPECT_THAT(nearest_name("trian", commands), Optional(Eq("train")));
  EXPECT_THAT(nearest_name("rum", commands), Optional(Eq("run")));
  EXPECT_THAT(nearest_name("inpsect", commands), Optional(Eq("inspect")));
}

TEST(NearestName, IsNoneIfNoneIsNear) {
  EXPECT_EQ(nearest_name("python", {"bench", "run", "train"}), std::nullopt);
  EXPECT_EQ(nearest_name("x", {"a", "b"}), std::nullopt) << "every letter differs";
  EXPECT_EQ(nearest_name("", {"a"}), std::nullopt);
  EXPECT_EQ(nearest_name("train", {}), std::nullopt);
}

TEST(NearestName, TakesDashesUnderscoresAndLargeLettersAsTheSame) {
  EXPECT_THAT(nearest_name("--batch_size", {"--batch-size", "--epochs"}),
              Optional(Eq("--batch-size")));
  EXPECT_THAT(nearest_name("--lr_b", {"--lrxb", "--lr-b"}), Optional(Eq("--lr-b")));
  EXPECT_THAT(nearest_name("ResNet18", {"convnet", "resnet18", "resnet34"}),
              Optional(Eq("resnet18")));
  EXPECT_THAT(nearest_name("-epoch", {"--batch-size", "--epochs"}), Optional(Eq("--epochs")));
}

TEST(NearestName, IsTheShortestThatBeginsWithTheWordElse) {
  const std::vector<std::string> flags{"--checkpoint-interval-steps", "--checkpoint-interval",
                                       "--warmup-epochs"};
  EXPECT_THAT(nearest_name("--checkpoint", flags), Optional(Eq("--checkpoint-interval")));
  EXPECT_EQ(nearest_name("--ch", flags), std::nullopt) << "two letters say too little";
}

TEST(NearestName, IsTheFirstOfEquallyNearOnes) {
  EXPECT_THAT(nearest_name("resnet19", {"resnet18", "resnet10"}), Optional(Eq("resnet18")));
}

class NearestPathTest : public ::testing::Test {
 protected:
  NearestPathTest() {
    std::filesystem::create_directories(folder_.file("photos/train"));
    std::filesystem::create_directories(folder_.file("tables"));
    std::ofstream(folder_.file("tables/pima.csv")) << "1\n";
  }
  test::TemporaryFolder folder_;
};

TEST_F(NearestPathTest, ReplacesThePartThatDoesNotExist) {
  EXPECT_THAT(nearest_path(folder_.file("fotos/train")),
              Optional(Eq(folder_.file("photos/train"))));
  EXPECT_THAT(nearest_path(folder_.file("tables/prima.csv")),
              Optional(Eq(folder_.file("tables/pima.csv"))));
}

TEST_F(NearestPathTest, IsNoneIfThePathExistsOrNothingIsNear) {
  EXPECT_EQ(nearest_path(folder_.file("tables")), std::nullopt);
  EXPECT_EQ(nearest_path(folder_.file("something/else")), std::nullopt);
  EXPECT_EQ(nearest_path(folder_.file("fotos/validation")), std::nullopt)
      << "the nearest folder has no such file";
  EXPECT_EQ(nearest_path(""), std::nullopt);
}

TEST_F(NearestPathTest, LooksInTheCurrentFolderForARelativePath) {
  const int status = test::run_in_child([&] {
    std::filesystem::current_path(folder_.file(""));
    return nearest_path("fotos") == "photos" ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep
