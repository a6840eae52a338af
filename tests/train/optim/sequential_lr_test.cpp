// Errors of SequentialLR; its rates are compared with torch's in lr_scheduler_test.cpp.
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/train/optim/lr_scheduler.h"
#include "lockstep/train/optim/sgd.h"

namespace lockstep::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(SequentialLR, SchedulesAndMilestonesMustFit) {
  SGD sgd({at::zeros({2}).requires_grad_()});
  SGD other({at::zeros({2}).requires_grad_()});
  const auto first = std::make_shared<LinearLR>(sgd);
  EXPECT_THAT([&] { SequentialLR(sgd, {first}, {3}); },
              ThrowsMessage<UsageError>(HasSubstr("1 schedules with 1 milestones")));
  EXPECT_THAT([&] { SequentialLR(other, {first}, {}); },
              ThrowsMessage<UsageError>(HasSubstr("of another optimizer")));
}

TEST(SequentialLR, AStateOfOtherSchedulesIsRefused) {
  SGD sgd({at::zeros({2}).requires_grad_()});
  SequentialLR one(sgd, {std::make_shared<LinearLR>(sgd)}, {});
  SequentialLR two(sgd, {std::make_shared<LinearLR>(sgd), std::make_shared<StepLR>(sgd)}, {4});
  EXPECT_THAT([&] { one.load_state_dict(two.state_dict()); },
              ThrowsMessage<UsageError>(HasSubstr("a state of 2 schedules, expected 1")));
  EXPECT_THAT([&] { one.load_state_dict({}); },
              ThrowsMessage<UsageError>(HasSubstr("has no '_milestones'")));
}

TEST(ScaledLr, FollowsTimmsRule) {
  EXPECT_EQ(scaled_lr(0.1, 1024), 0.1 * 4);
  EXPECT_EQ(scaled_lr(0.1, 64, {.base_size = 256}), 0.1 * 0.25);
  EXPECT_EQ(scaled_lr(0.1, 1024, {.scale = LrScale::kSqrt}), 0.1 * 2);
  EXPECT_THAT([] { scaled_lr(0.1, 0); },
              ThrowsMessage<UsageError>(HasSubstr("a global batch of 0")));
}

}  // namespace
}  // namespace lockstep::optim
