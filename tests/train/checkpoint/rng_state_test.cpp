#include "lockstep/train/checkpoint/rng_state.h"

#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/train/checkpoint/checkpoint_writer.h"
#include "tests/comm/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(RngState, TheGeneratorGoesOn) {
  at::manual_seed(3);
  const auto state = rng_state();
  const auto first = at::randn({4});
  EXPECT_TRUE(set_rng_state(state));
  EXPECT_TRUE(at::randn({4}).equal(first));
}

TEST(RngState, EachRankGoesOnWithItsOwnGenerator) {
  const test::TemporaryFolder folder;
  testing::run_ranks(2, [&](Group& world) {
    at::manual_seed(static_cast<std::uint64_t>(100 + world.rank()));
    at::randn({world.rank() + 5});  // Not at the same place, either.
    Checkpoint checkpoint;
    checkpoint.rng = rng_state(world);
    if (world.rank() == 0) {
      CheckpointWriter writer(folder.file("run"));
      writer.save(checkpoint);
      writer.wait();
    }
    world.barrier();
    const auto expected = at::randn({8});
    at::manual_seed(0);
    const auto saved = load_checkpoint(folder.file("run")).checkpoint;
    ASSERT_EQ(saved.rng.cpu.size(), 2U);
    EXPECT_TRUE(set_rng_state(saved.rng, {.rank = world.rank(), .device = world.device()}));
    EXPECT_TRUE(at::randn({8}).equal(expected)) << "rank " << world.rank();
    EXPECT_FALSE(saved.rng.cpu[0].equal(saved.rng.cpu[1]));
  });
}

// Torch 2.15 would read it from another place.
TEST(RngState, AViewIsAStateToo) {
  at::manual_seed(3);
  const auto state = rng_state().cpu.front();
  const auto expected = at::randn({4});
  EXPECT_TRUE(set_rng_state({.cpu = {at::stack({at::zeros_like(state), state})[1]}}));
  EXPECT_TRUE(at::randn({4}).equal(expected));
}

TEST(RngState, ARankThatWasNotThereChangesNothing) {
  const auto state = rng_state();
  at::manual_seed(5);
  const auto expected = at::randn({4});
  at::manual_seed(5);
  EXPECT_FALSE(set_rng_state(state, {.rank = 1}));
  EXPECT_FALSE(set_rng_state(state, {.device = at::kCUDA})) << "saved on a CPU";
  EXPECT_FALSE(set_rng_state({}));
  EXPECT_TRUE(at::randn({4}).equal(expected));
}

TEST(RngState, SomethingElseIsAnError) {
  const RngState bad{.cpu = {at::zeros({7}, at::kByte)}};
  EXPECT_THAT([&] { set_rng_state(bad); },
              ThrowsMessage<IoError>(HasSubstr("on 'cpu' is 7 bytes that are none")));
}

}  // namespace
}  // namespace lockstep
