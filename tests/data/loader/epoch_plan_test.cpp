#include "lockstep/data/loader/epoch_plan.h"

#include <gmock/gmock.h>

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;

TEST(EpochPlan, CutsIndicesIntoBatches) {
  const EpochPlan plan({5, 3, 9, 1, 7}, 2, /*drop_last=*/false, {.seed = 4, .epoch = 2});
  ASSERT_EQ(plan.size(), 3);
  EXPECT_THAT(plan.batch(0), ElementsAre(5, 3));
  EXPECT_THAT(plan.batch(1), ElementsAre(9, 1));
  EXPECT_THAT(plan.batch(2), ElementsAre(7));
  EXPECT_EQ(plan.samples_of(0), 0);
  EXPECT_EQ(plan.samples_of(2), 4);
  EXPECT_EQ(plan.samples_of(3), 5);
  EXPECT_EQ(plan.seed().seed, 4);
  EXPECT_EQ(plan.seed().epoch, 2);
}

TEST(EpochPlan, LeavesOutALastBatchThatIsNotFull) {
  EXPECT_EQ(EpochPlan({5, 3, 9, 1, 7}, 2, /*drop_last=*/true, {}).size(), 2);
  EXPECT_EQ(EpochPlan({5, 3, 9, 1}, 2, /*drop_last=*/true, {}).size(), 2);
  EXPECT_EQ(EpochPlan({5}, 2, /*drop_last=*/true, {}).size(), 0);
  EXPECT_EQ(EpochPlan({}, 2, /*drop_last=*/false, {}).size(), 0);
}

TEST(EpochPlan, TakesBatchesOfAnySize) {
  const EpochPlan plan({{4}, {1, 2, 3}, {}}, {});
  ASSERT_EQ(plan.size(), 3);
  EXPECT_THAT(plan.batch(0), ElementsAre(4));
  EXPECT_THAT(plan.batch(1), ElementsAre(1, 2, 3));
  EXPECT_THAT(plan.batch(2), ElementsAre());
  EXPECT_EQ(plan.samples_of(2), 4);
}

}  // namespace
}  // namespace lockstep::data
