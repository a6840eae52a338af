#include "lockstep/parallel/reducer_options.h"

#include <gmock/gmock.h>

#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"

namespace lockstep::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::size_t kNoLimit = std::numeric_limits<std::int64_t>::max();

ReducerOptions chosen(const DistributedDataParallelOptions& options) {
  return reducer_options(options, init_process_group());
}

TEST(ReducerOptions, CapBucketsAsPyTorchDoes) {
  EXPECT_THAT(chosen({}).limits, ElementsAre(kMebibyte, 25 * kMebibyte));
  EXPECT_THAT(chosen({}).first_limits, ElementsAre(kNoLimit));
  EXPECT_THAT(chosen({.find_unused_parameters = true}).first_limits,
              ElementsAre(kMebibyte, 25 * kMebibyte));
  EXPECT_THAT(chosen({.bucket_cap_mb = 25.0}).limits, ElementsAre(25 * kMebibyte));
}

TEST(ReducerOptions, TakeAListOfCapsForTheFirstStepToo) {
  const auto options = chosen({.bucket_cap_mb_list = {0.5, 3}});
  EXPECT_THAT(options.limits, ElementsAre(kMebibyte / 2, 3 * kMebibyte));
  EXPECT_EQ(options.first_limits, options.limits);
}

TEST(ReducerOptions, RefuseCapsThatCannotBe) {
  const auto expect_refused = [](const DistributedDataParallelOptions& options, const char* why) {
    EXPECT_THAT([&] { chosen(options); }, ThrowsMessage<UsageError>(HasSubstr(why)));
  };
  expect_refused({.bucket_cap_mb = 0.0}, "a bucket cap is 0.0");
  expect_refused({.bucket_cap_mb = -1.0}, "a bucket cap is -1.0");
  expect_refused({.bucket_cap_mb_list = {1, 0}}, "a bucket cap is 0.0");
  expect_refused({.bucket_cap_mb = 1.0, .bucket_cap_mb_list = {1.0}}, "both");
}

TEST(ReducerOptions, OneRankLeavesGradientsWhereTheyAre) {
  EXPECT_EQ(chosen({}).buckets.mode, GradientBucket::Mode::kStay);
  EXPECT_EQ(chosen({}).mode_with_hook, GradientBucket::Mode::kViews);
  EXPECT_EQ(chosen({.reduce_alone = true}).buckets.mode, GradientBucket::Mode::kViews);
}

}  // namespace
}  // namespace lockstep::parallel
