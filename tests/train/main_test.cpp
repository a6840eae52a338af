#include "lockstep/train/main.h"

#include <gmock/gmock.h>

#include <vector>

namespace lockstep::train {
namespace {

int run(std::vector<std::string> words) {
  words.insert(words.begin(), "train");
  std::vector<char*> argv;
  for (auto& word : words) {
    argv.push_back(word.data());
  }
  return main(static_cast<int>(argv.size()), argv.data());
}

TEST(TrainMain, WrongFlagsAreCode2WithAHint) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run({"--epoch", "3"}), 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "lockstep train: there is no flag '--epoch'; HINT: --epochs\n");
}

TEST(TrainMain, HelpIsCode0) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::HasSubstr("--global-batch-size"));
}

}  // namespace
}  // namespace lockstep::train
