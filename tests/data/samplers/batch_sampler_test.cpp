#include "lockstep/data/samplers/batch_sampler.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/data/samplers/distributed_sampler.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// The examples of Python's documentation.
TEST(BatchSampler, CutsIntoBatches) {
  const BatchSampler whole(SequentialSampler(10), {.batch_size = 3});
  EXPECT_THAT(whole.batches(), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5),
                                           ElementsAre(6, 7, 8), ElementsAre(9)));
  EXPECT_EQ(whole.size(), 4);
  const BatchSampler dropping(SequentialSampler(10), {.batch_size = 3, .drop_last = true});
  EXPECT_THAT(dropping.batches(),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5), ElementsAre(6, 7, 8)));
  EXPECT_EQ(dropping.size(), 3);
}

TEST(BatchSampler, SizeIsTheNumberOfBatches) {
  for (const std::int64_t samples : {0, 1, 4, 5, 9, 10}) {
    for (const std::int64_t batch_size : {1, 4, 5, 11}) {
      for (const bool drop_last : {false, true}) {
        const BatchSampler sampler(SequentialSampler(samples),
                                   {.batch_size = batch_size, .drop_last = drop_last});
        EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(sampler.batches().size()));
      }
    }
  }
}

TEST(BatchSampler, FollowsTheEpochOfTheSamplerItWasMadeOf) {
  DistributedSampler sampler(64, 2, 0);
  const BatchSampler batches(sampler, {.batch_size = 32});
  sampler.set_epoch(4);
  EXPECT_THAT(batches.batches(), ElementsAre(sampler.indices()));
}

TEST(BatchSampler, ABatchOfNothingIsRefused) {
  EXPECT_THAT([] { BatchSampler(SequentialSampler(3), {.batch_size = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("batch_size is 0, expected 1 or more")));
  EXPECT_THAT(BatchSampler(SequentialSampler(0)).batches(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::data
