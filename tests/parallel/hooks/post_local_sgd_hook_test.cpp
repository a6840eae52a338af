#include "lockstep/parallel/hooks/post_local_sgd_hook.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::ThrowsMessage;

float run(const CommHook& hook, int rank) {
  GradBucket bucket({}, at::full({1}, static_cast<double>(rank), at::kFloat), {});
  return hook(bucket).wait().item<float>();
}

TEST(PostLocalSgd, AveragesOverTheSubgroupAfterItsStart) {
  run_ranks(4, [](Group& world) {
    const auto first = world.new_group({0, 1});
    const auto second = world.new_group({2, 3});
    const auto hook =
        post_local_sgd_hook(world, world.rank() < 2 ? first : second, {.start_local_sgd_iter = 2});
    EXPECT_EQ(run(hook, world.rank()), 1.5F);
    EXPECT_EQ(run(hook, world.rank()), 1.5F);
    EXPECT_EQ(run(hook, world.rank()), world.rank() < 2 ? 0.5F : 2.5F);
    if (world.rank() >= 2) {
      EXPECT_THAT([&] { post_local_sgd_hook(world, first); },
                  ThrowsMessage<UsageError>(HasSubstr("no member of the subgroup")));
    }
  });
}

TEST(PostLocalSgd, LeavesGradientsOnTheirRankIfToldSo) {
  run_ranks(2, [](Group& world) {
    const auto hook = post_local_sgd_hook(
        world, world, {.start_local_sgd_iter = 1, .post_local_gradient_allreduce = false});
    EXPECT_EQ(run(hook, world.rank()), 0.5F);
    EXPECT_EQ(run(hook, world.rank()), static_cast<float>(world.rank()));
  });
}

TEST(PeriodicModelAverager, AveragesAfterTheWarmupOncePerPeriod) {
  run_ranks(2, [](Group& world) {
    PeriodicModelAverager averager(world, {.period = 2, .warmup_steps = 1});
    const auto parameter = at::full({2}, 0.0).set_requires_grad(true);
    const auto without = at::full({2}, 0.0).set_requires_grad(true);
    parameter.mutable_grad() = at::full({2}, 1.0);
    std::vector<bool> averaged;
    for (int step = 0; step < 5; ++step) {
      {
        const at::NoGradGuard no_grad;
        parameter.fill_(world.rank());
        without.fill_(world.rank());
      }
      averager.average_parameters({parameter, without});
      averaged.push_back(parameter[1].item<double>() == 0.5);
      EXPECT_EQ(without[0].item<double>(), world.rank());
    }
    EXPECT_THAT(averaged, ::testing::ElementsAre(false, true, false, true, false));
    EXPECT_EQ(averager.step(), 5);
  });
}

TEST(PeriodicModelAverager, NeedsAPeriod) {
  const auto world = init_process_group();
  EXPECT_THAT([&] { PeriodicModelAverager(world, {.period = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("the period is 0")));
}

}  // namespace
}  // namespace lockstep
