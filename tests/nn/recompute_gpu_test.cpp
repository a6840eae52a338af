// Recomputed blocks in a step that is recorded as a CUDA graph. Runs where there is a GPU.
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "lockstep/device/graphed_step.h"
#include "lockstep/nn/recompute.h"

namespace lockstep::utils {
namespace {

using ::testing::HasSubstr;

struct Trained {
  std::vector<double> losses;
  bool is_recorded;
  std::string why_eager;
};

Trained train(const CheckpointOptions& options, bool record) {
  auto weight = at::ones({4, 4}, at::kCUDA).mul_(0.1).requires_grad_();
  const auto block = [&](const Tensors& inputs) {
    return Tensors{at::linear(inputs.front(), weight).tanh()};
  };
  GraphedStep step(
      [&](const at::Tensor& x) {
        weight.mutable_grad().reset();
        const auto loss = checkpoint(block, {x}, options).front().square().sum();
        loss.backward();
        weight.detach().sub_(weight.grad(), 0.01);
        return loss;
      },
      {.record = record});
  Trained found;
  for (int i = 0; i < 6; ++i) {
    found.losses.push_back(step(at::ones({2, 4}, at::kCUDA).mul(i + 1)).item<double>());
  }
  found.is_recorded = step.is_recorded();
  found.why_eager = step.why_eager();
  return found;
}

TEST(CheckpointOnAGpu, IsRecordedIfItTakesNoRandomNumbersBack) {
  const CheckpointOptions options{.preserve_rng_state = false};
  const auto found = train(options, /*record=*/true);
  EXPECT_TRUE(found.is_recorded) << found.why_eager;
  EXPECT_EQ(found.losses, train(options, /*record=*/false).losses);
}

TEST(CheckpointOnAGpu, RunsEagerlyOtherwiseAndSaysWhatToDo) {
  const auto found = train({}, /*record=*/true);
  EXPECT_FALSE(found.is_recorded);
  EXPECT_THAT(found.why_eager, HasSubstr("preserve_rng_state = false"));
  EXPECT_EQ(found.losses, train({}, /*record=*/false).losses);
}

}  // namespace
}  // namespace lockstep::utils
