#include "lockstep/train/config/batch_plan.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

TEST(BatchPlan, GlobalBatchGivesTheSameStepsForAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 4}) {
    const auto plan = plan_batches({.global_batch_size = 32}, 100, ranks);
    EXPECT_EQ(plan.global, 32);
    EXPECT_EQ(plan.per_rank, 32 / ranks);
    EXPECT_EQ(plan.steps_per_epoch, 3);
  }
}

TEST(BatchPlan, BatchOfARankTimesRanksTimesPasses) {
  const auto plan = plan_batches({.batch_size = 4, .grad_accum = 3}, 100, 2);
  EXPECT_EQ(plan.global, 24);
  EXPECT_EQ(plan.steps_per_epoch, 4);
  EXPECT_EQ(plan.validation, 4);
}

TEST(BatchPlan, TwoSizesMustAgree) {
  EXPECT_EQ(plan_batches({.batch_size = 16, .global_batch_size = 32}, 100, 2).per_rank, 16);
  EXPECT_THAT([] { plan_batches({.batch_size = 8, .global_batch_size = 32}, 100, 2); },
              ::testing::ThrowsMessage<UsageError>(::testing::AllOf(
                  ::testing::HasSubstr("--batch-size is 8, but --global-batch-size 32 "
                                       "is 16 for each of 2 ranks"),
                  ::testing::HasSubstr("HINT: leave --batch-size out"))));
}

TEST(BatchPlan, ValidationHasABatchOfItsOwn) {
  const auto plan = plan_batches({.batch_size = 4, .validation_batch_size = 7}, 100, 2);
  EXPECT_EQ(plan.validation, 7);
  EXPECT_EQ(plan.per_rank, 4);
  EXPECT_EQ(plan_batches({.global_batch_size = 32}, 100, 2).validation, 16);
}

TEST(BatchPlan, TooLargeABatchNamesOneThatFits) {
  EXPECT_THAT([] { plan_batches({.batch_size = 64}, 100, 2); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("--batch-size 50")));
  EXPECT_THAT([] { plan_batches({.batch_size = 64, .grad_accum = 5}, 9, 2); },
              ::testing::ThrowsMessage<UsageError>(
                  ::testing::HasSubstr("HINT: fewer ranks or a smaller --grad-accum")))
      << "no batch would fit";
}

TEST(BatchPlan, FastDevRunHasFewSteps) {
  EXPECT_EQ(plan_batches({.batch_size = 4, .fast_dev_run = 2}, 100, 1).steps_per_epoch, 2);
}

TEST(InitialLr, FollowsTheFlagsOrTheOptimizer) {
  const BatchPlan batches{.global = 512};
  EXPECT_EQ(initial_lr({}, batches), 0.02);
  EXPECT_EQ(initial_lr({.opt = "adamw"}, batches), 0.001);
  EXPECT_EQ(initial_lr({.lr = 0.5}, batches), 0.5);
  EXPECT_EQ(initial_lr({.lr_base = 0.1}, batches), 0.2);
  EXPECT_DOUBLE_EQ(initial_lr({.opt = "adam", .lr_base = 0.1}, batches), 0.1 * std::sqrt(2.0));
}

}  // namespace
}  // namespace lockstep::train
