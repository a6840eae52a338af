#include "lockstep/parallel/hooks/default_hooks.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using testing::run_ranks;

at::Tensor values_of(int rank) { return at::arange(1, 6, at::kFloat).mul(1.0 / 3).add(rank); }

at::Tensor result_of(const CommHook& hook, int rank) {
  GradBucket bucket({}, values_of(rank), {});
  return hook(bucket).wait();
}

TEST(DefaultHooks, AllreduceAverages) {
  run_ranks(2, [](Group& world) {
    const auto result = result_of(allreduce_hook(world), world.rank());
    EXPECT_TRUE(result.equal(values_of(0) / 2 + values_of(1) / 2));
  });
}

TEST(DefaultHooks, CompressionRoundsAndGivesTheOldTypeBack) {
  run_ranks(2, [](Group& world) {
    const auto rounded = [](at::ScalarType type) {
      return (values_of(0).to(type).div_(2) + values_of(1).to(type).div_(2)).to(at::kFloat);
    };
    const auto half = result_of(fp16_compress_hook(world), world.rank());
    EXPECT_TRUE(half.equal(rounded(at::kHalf)));
    EXPECT_FALSE(half.equal(rounded(at::kBFloat16)));
    EXPECT_TRUE(result_of(bf16_compress_hook(world), world.rank()).equal(rounded(at::kBFloat16)));
  });
}

TEST(DefaultHooks, WrappersOfAllreduceAreTheCompressingHooks) {
  run_ranks(3, [](Group& world) {
    const auto same = [&](const CommHook& one, const CommHook& other) {
      return result_of(one, world.rank()).equal(result_of(other, world.rank()));
    };
    const auto all = allreduce_hook(world);
    EXPECT_TRUE(same(fp16_compress_wrapper(all), fp16_compress_hook(world)));
    EXPECT_TRUE(same(bf16_compress_wrapper(all), bf16_compress_hook(world)));
  });
}

TEST(DefaultHooks, NoopLeavesGradientsOnTheirRank) {
  EXPECT_TRUE(result_of(noop_hook(), 3).equal(values_of(3)));
}

}  // namespace
}  // namespace lockstep
