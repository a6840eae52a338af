#include "lockstep/train/main.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <fstream>
#include <functional>
#include <new>
#include <string>
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
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run({"--epoch", "3"}), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "lockstep train: there is no flag '--epoch'; HINT: --epochs\n");
}

TEST(TrainMain, HelpIsCode0) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              ::testing::HasSubstr("--global-batch-size"));
}

// As make_network() of a network that needs too much; returns what stderr has.
std::string train_without_memory(const std::function<void()>& fail) {
  const toys::Folder folder;
  const auto data = folder.path + "/points.csv";
  std::ofstream(data) << "1,2,0\n2,1,1\n1,2,0\n";
  const auto make_huge = [&](const models::ModelOptions& /*options*/) {
    fail();
    return torch::nn::Sequential(torch::nn::Linear(2, 2));
  };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run({data, "--model", "huge", "--batch-size", "1"}, {{"huge", make_huge}}), 1);
  return ::testing::internal::GetCapturedStderr();
}

constexpr const char* kHint =
    "lockstep train: HINT: not enough memory: halve --batch-size and double --grad-accum, or --amp "
    "bf16\n";

TEST(TrainMain, TooLittleMemoryIsAHintWithoutABacktrace) {
  const auto text = train_without_memory([] { at::empty({std::int64_t{1} << 55}); });
  EXPECT_THAT(text, ::testing::AllOf(::testing::HasSubstr("DefaultCPUAllocator"),
                                     ::testing::EndsWith(kHint),
                                     ::testing::Not(::testing::HasSubstr("frame #"))));
}

// As LibTorch's allocators of GPUs say it.
TEST(TrainMain, TooLittleMemoryOfAGpuIsTheSameHint) {
  const auto text = train_without_memory(
      [] { TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried 3 GiB."); });
  EXPECT_EQ(text, std::string("lockstep train: CUDA out of memory. Tried 3 GiB.\n") + kHint);
}

TEST(TrainMain, TooLittleMemoryOfTheProgramIsTheSameHint) {
  const auto text = train_without_memory([] { throw std::bad_alloc(); });
  EXPECT_EQ(text, std::string("lockstep train: out of memory\n") + kHint);
}

}  // namespace
}  // namespace lockstep::train
