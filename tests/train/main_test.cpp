#include "lockstep/train/main.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <fstream>
#include <vector>

#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

int run(std::vector<std::string> words, const Networks& networks = {}) {
  words.insert(words.begin(), "train");
  std::vector<char*> argv;
  for (auto& word : words) {
    argv.push_back(word.data());
  }
  return main(static_cast<int>(argv.size()), argv.data(), networks);
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

TEST(TrainMain, TooLittleMemoryIsAHintWithoutABacktrace) {
  const toys::Folder folder;
  const auto data = folder.path + "/points.csv";
  std::ofstream(data) << "1,2,0\n2,1,1\n1,2,0\n";
  const auto make_huge = [](const models::ModelOptions& /*options*/) {
    at::empty({std::int64_t{1} << 55});
    return torch::nn::Sequential(torch::nn::Linear(2, 2));
  };
  testing::internal::CaptureStderr();
  EXPECT_EQ(run({data, "--model", "huge", "--batch-size", "1"}, {{"huge", make_huge}}), 1);
  const auto text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::AllOf(testing::HasSubstr("HINT: not enough memory"),
                                   testing::Not(testing::HasSubstr("frame #"))));
}

}  // namespace
}  // namespace lockstep::train
