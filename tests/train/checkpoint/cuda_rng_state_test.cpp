// Runs where there is a GPU: its generator goes on as the one of the CPU.
#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include "lockstep/train/checkpoint/rng_state.h"

namespace lockstep {
namespace {

TEST(RngStateOnAGpu, BothGeneratorsGoOn) {
  const at::Device device(at::kCUDA, 0);
  const auto draw = [&] { return at::cat({at::randn({4}), at::randn({4}, device).cpu()}); };
  at::manual_seed(3);
  draw();
  const auto state = rng_state(device);
  ASSERT_EQ(state.cuda.size(), 1U);
  const auto expected = draw();
  EXPECT_FALSE(draw().equal(expected));
  EXPECT_TRUE(set_rng_state(state, {.device = device}));
  EXPECT_TRUE(draw().equal(expected));
}

TEST(RngStateOnAGpu, AStateWithoutOneForTheGpuChangesNothing) {
  at::manual_seed(3);
  const auto state = rng_state();
  const auto expected = at::randn({4});
  at::manual_seed(3);
  EXPECT_FALSE(set_rng_state(state, {.device = at::Device(at::kCUDA, 0)}));
  EXPECT_TRUE(at::randn({4}).equal(expected));
}

}  // namespace
}  // namespace lockstep
