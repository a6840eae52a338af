#include "lockstep/log/histogram.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::log {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

Histogram histogram(const std::vector<double>& values) { return make_histogram(values); }

TEST(Histogram, HasAnEmptyBucketBeforeTheFirst) {
  const auto result = histogram({0, 0, 1e-13});
  EXPECT_THAT(result.bucket, ElementsAre(0, 3));
  EXPECT_THAT(result.bucket_limit, ElementsAre(0, 1e-12));
}

TEST(Histogram, KnowsExtremesAndSums) {
  const auto result = histogram({-2, 3, 0.5});
  EXPECT_EQ(result.min, -2);
  EXPECT_EQ(result.max, 3);
  EXPECT_EQ(result.num, 3);
  EXPECT_EQ(result.sum, 1.5);
  EXPECT_EQ(result.sum_squares, 13.25);
  double counted = 0;
  for (const double number : result.bucket) {
    counted += number;
  }
  EXPECT_EQ(counted, 3);
  EXPECT_EQ(result.bucket.size(), result.bucket_limit.size());
}

TEST(Histogram, WhatIsNoNumberIsInNoBucket) {
  const double nan = std::nan("");
  const auto some = histogram({1, nan, std::numeric_limits<double>::infinity()});
  EXPECT_THAT(some.bucket, ElementsAre(0, 1));
  EXPECT_TRUE(std::isnan(some.min));
  EXPECT_TRUE(std::isnan(some.max));
  EXPECT_THAT(histogram({nan, 1e300}).bucket, IsEmpty());
}

TEST(Histogram, NoValuesAreAnError) {
  EXPECT_THAT([] { histogram({}); }, ThrowsMessage<UsageError>(HasSubstr("no values")));
}

}  // namespace
}  // namespace lockstep::log
