// torchvision_test.cpp compares each operation and strength with torchvision's.
#include "lockstep/data/transforms/rand_augment.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "tests/data/pictures.h"

namespace lockstep::data {
namespace {

TEST(RandAugment, EveryOperationAndSignIsEquallyLikely) {
  constexpr int kDraws = 14'000;
  std::vector<int> counts(kAugmentOps);
  int shears = 0;
  int negative = 0;
  for (int i = 0; i < kDraws; ++i) {
    SampleRandom random(1, 0, static_cast<std::uint64_t>(i));
    const auto steps = get_params(RandAugment{.num_ops = 1}, 32, random);
    ASSERT_EQ(steps.size(), 1U);
    ++counts.at(static_cast<std::size_t>(steps[0].op));
    if (steps[0].op == AugmentOp::kShearX) {
      ++shears;
      negative += steps[0].magnitude < 0 ? 1 : 0;
      EXPECT_NEAR(std::abs(steps[0].magnitude), 0.09, 1e-6);
    } else if (steps[0].op == AugmentOp::kSolarize) {
      EXPECT_EQ(steps[0].magnitude, 178.5);
    }
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 1000, 160);
  }
  EXPECT_NEAR(negative, shears / 2, 80);
}

TEST(RandAugment, EveryOperationKeepsTheSize) {
  for (int op = 0; op < kAugmentOps; ++op) {
    for (const Size size : {Size{1, 1}, Size{2, 40}, Size{31, 17}}) {
      const Image image =
          apply({.op = static_cast<AugmentOp>(op), .magnitude = 3}, {}, test_picture(size));
      EXPECT_EQ((Size{image.height, image.width}), size) << op;
    }
  }
}

TEST(RandAugment, OpsAreDrawnAsOftenAsAsked) {
  SampleRandom random(1, 0, 0);
  EXPECT_EQ(get_params(RandAugment{.num_ops = 5}, 32, random).size(), 5U);
  EXPECT_TRUE(get_params(RandAugment{.num_ops = 0}, 32, random).empty());
}

}  // namespace
}  // namespace lockstep::data
