// One rank's NaN under DistributedDataParallel: it is named by that rank, and by no other.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/amp/gradient_check.h"
#include "lockstep/train/optim/sgd.h"
#include "tests/comm/ranks.h"

namespace lockstep::amp {
namespace {

TEST(GradientCheckUnderDdp, NamesTheRankWhoseGradientItIs) {
  testing::run_ranks(2, [](Group& world) {
    torch::nn::Linear net(3, 2);
    DistributedDataParallel ddp(net.ptr(), world);
    GradientCheck check(ddp);
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

TEST(GradientCheckUnderDdp, TheOthersAreToldWhyTheRankIsGone) {
  testing::run_ranks(2, [](Group& world) {
    torch::nn::Linear net(3, 2);
    DistributedDataParallel ddp(net.ptr(), world);
    GradientCheck check(ddp);
    const auto step = [&](int number) {
      const bool poisoned = number == 1 && world.rank() == 1;
      net->zero_grad();
      ddp(at::full({4, 3}, poisoned ? std::nan("") : 1.0, at::kFloat)).sum().backward();
      return check.check(number);
    };
    EXPECT_TRUE(step(0));
    if (world.rank() == 1) {
      EXPECT_THROW(static_cast<void>(step(1)), UsageError);
      world.destroy();  // As at the end of a program.
      return;
    }
    EXPECT_TRUE(step(1));
    EXPECT_THAT([&] { static_cast<void>(step(2)); },
                ::testing::ThrowsMessage<PeerError>(::testing::HasSubstr(
                    "rank 1 had failed: rank 1, step 1: the gradient of 'weight'")));
  });
}

// One rank's overflow becomes everybody's by the average, and each scaler skips the step by itself.
TEST(GradientCheckUnderDdp, AnOverflowThatTheScalerHandlesIsNoFault) {
  for (const auto policy : {NonFinitePolicy::kAbort, NonFinitePolicy::kSkip}) {
    testing::run_ranks(2, [policy](Group& world) {
      torch::nn::Linear net(3, 2);
      DistributedDataParallel ddp(net.ptr(), world);
      GradientCheck check(ddp, {.policy = policy});
      GradScaler scaler({.init_scale = 4});
      optim::SGD optimizer(ddp.parameters(), {.lr = 0.1});
      std::vector<double> scales;
      for (int step = 0; step < 4; ++step) {
        const bool overflows = step < 2 && world.rank() == 1;
        const auto before = net->weight.clone();
        optimizer.zero_grad();
        const auto input = at::full({4, 3}, overflows ? INFINITY : 1.0, at::kFloat);
        scaler.scale(ddp(input).sum()).backward();
        EXPECT_TRUE(check.check(step, &scaler));
        EXPECT_EQ(check.first().has_value(),
                  step < 2 && (world.rank() == 1 || policy == NonFinitePolicy::kSkip));
        scaler.step(optimizer);
        scaler.update();
        EXPECT_EQ(net->weight.equal(before), step < 2) << "rank " << world.rank();
        scales.push_back(scaler.get_scale());
      }
      EXPECT_EQ(scales, (std::vector<double>{2, 1, 1, 1}));
    });
  }
}

TEST(GradientCheckUnderDdp, AllRanksSkipTheStepOfOne) {
  testing::run_ranks(2, [](Group& world) {
    torch::nn::Linear net(3, 2);
    DistributedDataParallel ddp(net.ptr(), world);
    GradientCheck check(ddp, {.policy = NonFinitePolicy::kSkip});
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
