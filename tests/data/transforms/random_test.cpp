#include "lockstep/data/transforms/random.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>
#include <vector>

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;

// The known answers of the authors' library, Random123.
TEST(Philox, GivesThePublishedNumbers) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_THAT(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(SampleRandom, EachSeedEpochAndIndexHasItsOwnNumbers) {
  std::set<std::uint64_t> seen;
  int drawn = 0;
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 32;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, kLarge}) {
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}, kLarge}) {
        SampleRandom random(seed, epoch, index);
        for (int i = 0; i < 20; ++i, ++drawn) {
          const std::uint64_t high = random.bits();
          seen.insert(high << 32 | random.bits());
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(drawn));
}

TEST(SampleRandom, TheSameSampleDrawsTheSameNumbers) {
  SampleRandom one(7, 3, 12);
  SampleRandom other(7, 3, 12);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(one.bits(), other.bits());
  }
}

TEST(SampleRandom, UniformNumbersFillTheirRangeEvenly) {
  constexpr int kBins = 20;
  constexpr int kDraws = 100'000;
  std::vector<int> counts(kBins);
  SampleRandom random(1, 0, 0);
  for (int i = 0; i < kDraws; ++i) {
    const double number = random.uniform(-3, 2);
    ASSERT_GE(number, -3);
    ASSERT_LT(number, 2);
    ++counts[static_cast<std::size_t>((number + 3) / 5 * kBins)];
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, kDraws / kBins, 5 * std::sqrt(kDraws / kBins));
  }
}

TEST(SampleRandom, EveryWholeNumberBelowALimitIsEquallyLikely) {
  constexpr int kDraws = 70'000;
  std::vector<int> counts(7);
  SampleRandom random(1, 0, 0);
  for (int i = 0; i < kDraws; ++i) {
    ++counts.at(static_cast<std::size_t>(random.below(7)));
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, kDraws / 7, 5 * std::sqrt(kDraws / 7));
  }
  EXPECT_EQ(random.below(1), 0);
}

TEST(SampleRandom, NormalNumbersHaveMeanZeroAndDeviationOne) {
  constexpr int kDraws = 100'000;
  SampleRandom random(1, 0, 0);
  double sum = 0;
  double squares = 0;
  int within_one = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double number = random.normal();
    sum += number;
    squares += number * number;
    within_one += std::abs(number) < 1 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.02);
  EXPECT_NEAR(squares / kDraws, 1, 0.03);
  EXPECT_NEAR(within_one, 0.6827 * kDraws, 0.01 * kDraws);
}

// The share of draws below x, beside the distribution function.
void expect_beta(double alpha, const std::function<double(double)>& share_below) {
  constexpr int kDraws = 20'000;
  SampleRandom random(1, 0, 0);
  std::vector<double> drawn(kDraws);
  for (double& number : drawn) {
    number = random.beta(alpha);
  }
  for (double x = 0.05; x < 1; x += 0.05) {
    const auto below = std::ranges::count_if(drawn, [&](double number) { return number < x; });
    EXPECT_NEAR(static_cast<double>(below) / kDraws, share_below(x), 0.015) << alpha << " " << x;
  }
}

TEST(SampleRandom, BetaNumbersHaveTheirDistribution) {
  expect_beta(1, [](double x) { return x; });
  expect_beta(0.5, [](double x) { return std::asin(std::sqrt(x)) * 2 / std::numbers::pi; });
  expect_beta(2, [](double x) { return x * x * (3 - 2 * x); });
  expect_beta(3, [](double x) { return x * x * x * (10 - 15 * x + 6 * x * x); });
}

// Most are nearly 0 or 1; numbers of the two gamma distributions are too small for a double.
TEST(SampleRandom, BetaNumbersOfATinyAlphaAreNumbers) {
  SampleRandom random(1, 0, 0);
  int ones = 0;
  for (int i = 0; i < 1000; ++i) {
    const double number = random.beta(1e-4);
    ASSERT_TRUE(number >= 0 && number <= 1);
    ones += number > 0.5 ? 1 : 0;
  }
  EXPECT_NEAR(ones, 500, 80);
}

TEST(SampleRandom, ABatchHasOtherNumbersThanItsFirstSample) {
  SampleRandom sample(7, 3, 12);
  SampleRandom batch = SampleRandom::of_batch(7, 3, 12);
  SampleRandom same = SampleRandom::of_batch(7, 3, 12);
  const auto bits = batch.bits();
  EXPECT_EQ(bits, same.bits());
  EXPECT_NE(bits, sample.bits());
}

}  // namespace
}  // namespace lockstep::data
