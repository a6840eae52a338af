// One rank's NaN under DistributedDataParallel: it is named by that rank, and by no other.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/amp/gradient_check.h"
#include "tests/comm/ranks.h"

namespace lockstep::amp {
namespace {

TEST(GradientCheckUnderDdp, NamesTheRankWhoseGradientItIs) {
  testing::run_ranks(2, [](Group& world) {
    torch::nn::Linear net(3, 2);
    DistributedDataParallel ddp(net.ptr(), world);
    GradientCheck check(*net, {.rank = world.rank()});
    for (int step = 0; step < 4; ++step) {
      const bool poisoned = step == 2 && world.rank() == 1;
      const auto input = at::full({4, 3}, poisoned ? std::nan("") : 1.0, at::kFloat);
      net->zero_grad();
      ddp(input).sum().backward();
      EXPECT_EQ(GradientCheck::first_of(*net).has_value(), step == 2) << "the averages";
      if (poisoned) {
        EXPECT_THAT([&] { static_cast<void>(check.check(step)); },
                    ::testing::ThrowsMessage<UsageError>(
                        ::testing::HasSubstr("rank 1, step 2: the gradient of 'weight'")));
      } else {
        EXPECT_TRUE(check.check(step));
      }
    }
  });
}

TEST(GradientCheckUnderDdp, AllRanksSkipTheStepOfOne) {
  testing::run_ranks(2, [](Group& world) {
    torch::nn::Linear net(3, 2);
    DistributedDataParallel ddp(net.ptr(), world);
    GradientCheck check(*net, {.rank = world.rank(), .policy = NonFinitePolicy::kSkip});
    for (int step = 0; step < 4; ++step) {
      const bool poisoned = step == 2 && world.rank() == 1;
      const auto input = at::full({4, 3}, poisoned ? std::nan("") : 1.0, at::kFloat);
      net->zero_grad();
      ddp(input).sum().backward();
      EXPECT_EQ(check.check(step), step != 2) << "rank " << world.rank();
      EXPECT_EQ(check.first().has_value(), step == 2);
    }
  });
}

}  // namespace
}  // namespace lockstep::amp
