#include "lockstep/train/run/run_names.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::train {
namespace {

TEST(RunName, IsTheLastPartOfTheDataAndTheModel) {
  EXPECT_EQ(run_name("fashion-mnist", "convnet"), "fashion-mnist-convnet");
  EXPECT_EQ(run_name("/data/imagenet/", "resnet50"), "imagenet-resnet50");
  EXPECT_EQ(run_name("tables/pima.csv", "mlp"), "pima-mlp");
}

TEST(RunName, HasOnlyWhatEveryFolderMayBeCalled) {
  EXPECT_EQ(run_name("my photos (new)", "a/b\n"), "my-photos--new-a-b");
  EXPECT_EQ(run_name("../..hidden", "-rf"), "hidden-rf");
  EXPECT_EQ(run_name("", ""), "data-model");
  EXPECT_EQ(run_name("\xff\xfe", "..."), "data-model");
  EXPECT_EQ(run_name(std::string(300, 'a'), std::string(300, 'b')),
            std::string(50, 'a') + "-" + std::string(50, 'b'));
}

TEST(RunName, OfTheCurrentFolderIsItsName) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("photos/train"));
  const int status = test::run_in_child([&] {
    std::filesystem::current_path(folder.file("photos/train"));
    return run_name(".", "m") == "train-m" && run_name("..", "m") == "photos-m" ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

class RunNames : public ::testing::Test {
 protected:
  std::string make(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(folder_.file(name));
    if (!content.empty()) {
      std::ofstream(folder_.file(name + "/" + content)) << "";
    }
    return folder_.file(name);
  }
  std::string root() const { return folder_.file(""); }

  test::TemporaryFolder folder_;
};

TEST_F(RunNames, TheNewestHasTheLargestNumberAlsoIfOneBeforeItIsGone) {
  EXPECT_EQ(newest_run(root(), "a-b"), "");
  for (const char* name : {"a-b", "a-b-3", "a-c-9"}) {
    make(name, "config.toml");
  }
  EXPECT_EQ(newest_run(root(), "a-b"), root() + "/a-b-3");
  EXPECT_EQ(newest_run(root(), "a-c"), root() + "/a-c-9");
  EXPECT_EQ(next_run(root(), "a-b"), root() + "/a-b-4");
}

TEST_F(RunNames, AFolderWithoutARunIsPassedOver) {
  make("a-b", "config.toml");
  make("a-b-2", "job");
  make("a-b-3", "");
  EXPECT_EQ(newest_run(root(), "a-b"), root() + "/a-b");
  EXPECT_EQ(next_run(root(), "a-b"), root() + "/a-b-2");
}

TEST_F(RunNames, OnlyWhatAStartWritesIsLeftOver) {
  EXPECT_TRUE(is_left_over(make("empty", "")));
  EXPECT_TRUE(is_left_over(make("refused", "job")));
  std::filesystem::create_directories(folder_.file("refused/log/attempt_0/0"));
  EXPECT_TRUE(is_left_over(folder_.file("refused")));
  EXPECT_FALSE(is_left_over(make("begun", "config.toml")));
  EXPECT_FALSE(is_left_over(make("done", "finished")));
  EXPECT_FALSE(is_left_over(make("mine", "notes.txt")));
  std::filesystem::create_directories(folder_.file("saved/checkpoints"));
  EXPECT_FALSE(is_left_over(folder_.file("saved")));
  std::filesystem::create_directory_symlink(folder_.file("empty"), folder_.file("link"));
  EXPECT_FALSE(is_left_over(folder_.file("link")));
  EXPECT_FALSE(is_left_over(folder_.file("nothing")));
}

}  // namespace
}  // namespace lockstep::train
