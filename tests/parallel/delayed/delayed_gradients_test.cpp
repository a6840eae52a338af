#include "lockstep/parallel/delayed/delayed_gradients.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/hooks/default_hooks.h"
#include "tests/parallel/trial.h"

namespace lockstep {
namespace {

using testing::batch_of;
using ::testing::HasSubstr;
using testing::kAllLayers;
using testing::Layers;
using testing::on_ranks;
using testing::Order;
using ::testing::ThrowsMessage;

// Layers whose weights of these numbers are delayed until that of another one is ready.
struct DelayedTrial {
  DelayedTrial(const Group& group, const std::vector<std::size_t>& delayed, std::size_t hooked,
               DistributedDataParallelOptions options = {})
      : world(group) {
    for (const std::size_t i : delayed) {
      options.delay_all_reduce_named_params.emplace_back("w" + std::to_string(i), net->weights[i]);
    }
    options.param_to_hook_all_reduce = net->weights[hooked];
    ddp.emplace(net, world, options);
  }

  void backward(int step, const Order& order = kAllLayers) {
    (*ddp)(batch_of(world.rank(), step), order).sum().backward();
  }

  at::Tensor local(int rank, int step, std::size_t i) const {
    const auto plain = std::make_shared<Layers>();
    plain->forward(batch_of(rank, step), kAllLayers).sum().backward();
    return plain->weights[i].grad();
  }

  // Divided, as PyTorch does it here, then summed in the order of the ranks.
  at::Tensor average(int step, std::size_t i) const {
    auto sum = local(0, step, i).div(world.size());
    for (int rank = 1; rank < world.size(); ++rank) {
      sum = sum + local(rank, step, i).div(world.size());
    }
    return sum;
  }

  Group world;
  std::shared_ptr<Layers> net = std::make_shared<Layers>();
  std::optional<DistributedDataParallel<Layers>> ddp;
};

TEST(DelayedGradients, AreAveragedWhenTheHookedParameterIsReady) {
  on_ranks([](Group& world) {
    DelayedTrial trial(world, {2, 3}, 1);
    at::Tensor before;
    trial.net->weights[2].register_hook(
        [&](const at::Tensor&) { before = trial.net->weights[3].grad().clone(); });
    for (int step = 0; step < 3; ++step) {
      trial.net->zero_grad();
      trial.backward(step);
      EXPECT_TRUE(before.equal(trial.local(world.rank(), step, 3))) << "step " << step;
      for (const std::size_t i : {2, 3}) {
        EXPECT_TRUE(trial.net->weights[i].grad().equal(trial.average(step, i)))
            << "step " << step << " w" << i;
      }
      EXPECT_TRUE(at::allclose(trial.net->weights[0].grad(), trial.average(step, 0)));
    }
    EXPECT_EQ(trial.ddp->stats().steps, 3);
    EXPECT_EQ(trial.ddp->stats().bytes, 2 * testing::kWeightBytes);
  });
}

TEST(DelayedGradients, BeginWithRank0sParameters) {
  on_ranks([](Group& world) {
    DistributedDataParallelOptions options{.init_sync = false};
    const auto net = std::make_shared<Layers>();
    {
      const at::NoGradGuard no_grad;
      net->weights[3].fill_(world.rank() + 1);
    }
    options.delay_all_reduce_named_params = {{"w3", net->weights[3]}};
    options.param_to_hook_all_reduce = net->weights[0];
    const DistributedDataParallel ddp(net, world, options);
    EXPECT_TRUE(net->weights[3].eq(1).all().item<bool>());
  });
}

// As in PyTorch: other options do not apply to them.
TEST(DelayedGradients, AreAveragedInsideNoSyncToo) {
  on_ranks([](Group& world) {
    DelayedTrial trial(world, {3}, 1);
    {
      const auto alone = trial.ddp->no_sync();
      trial.backward(0);
    }
    EXPECT_TRUE(trial.net->weights[3].grad().equal(trial.average(0, 3)));
    EXPECT_TRUE(trial.net->weights[0].grad().equal(trial.local(world.rank(), 0, 0)));
  });
}

TEST(DelayedGradients, ThatAutogradPutElsewhereAreTakenAlong) {
  on_ranks([](Group& world) {
    DelayedTrial trial(world, {3}, 1);
    trial.net->weights[3].mutable_grad() = at::ones({testing::kWidth, testing::kWidth});
    trial.backward(0);
    EXPECT_TRUE(at::allclose(trial.net->weights[3].grad(), trial.average(0, 3) + 1));
  });
}

TEST(DelayedGradients, MayBeThoseOfAllParameters) {
  on_ranks([](Group& world) {
    const auto net = std::make_shared<Layers>();
    const auto outer = at::ones({testing::kWidth}).set_requires_grad(true);
    DistributedDataParallelOptions options{.param_to_hook_all_reduce = outer};
    for (const auto& item : net->named_parameters()) {
      options.delay_all_reduce_named_params.emplace_back(item.key(), item.value());
    }
    DistributedDataParallel ddp(net, world, options);
    const DelayedTrial expected(world, {3}, 1);
    for (int step = 0; step < 2; ++step) {
      ddp.zero_grad();
      ddp(batch_of(world.rank(), step) * outer, kAllLayers).sum().backward();
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(net->weights[i].grad().equal(expected.average(step, i))) << "w" << i;
      }
    }
    EXPECT_EQ(ddp.stats().steps, 2);
    EXPECT_THAT([&] { ddp.register_comm_hook(noop_hook()); },
                ThrowsMessage<UsageError>(HasSubstr("all parameters are delayed")));
  });
}

TEST(DelayedGradients, ThatComeTooLateAreAnError) {
  DelayedTrial trial(init_process_group(), {0}, 2);
  EXPECT_THAT([&] { trial.backward(0); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("backward of step 1"),
                                              HasSubstr("the gradient of 'w0' came after"))));
}

TEST(DelayedGradients, ThatWereNotAveragedAreAnError) {
  DelayedTrial trial(init_process_group(), {3}, 0, {.find_unused_parameters = true});
  trial.backward(0, {1, 2, 3});
  EXPECT_THAT([&] { trial.backward(1); },
              ThrowsMessage<UsageError>(HasSubstr("gradient of 'w3', but none of")));
}

void expect_refused(const DistributedDataParallelOptions& options, const char* why,
                    const std::shared_ptr<Layers>& net) {
  const auto world = init_process_group();
  EXPECT_THAT([&] { DistributedDataParallel(net, world, options); },
              ThrowsMessage<UsageError>(HasSubstr(why)));
}

TEST(DelayedGradients, RefuseWhatCannotBe) {
  const auto net = std::make_shared<Layers>();
  const auto& w0 = net->weights[0];
  const parallel::NamedTensors w3{{"w3", net->weights[3]}};
  expect_refused({.delay_all_reduce_named_params = w3}, "set at the same time", net);
  expect_refused({.param_to_hook_all_reduce = w0}, "set at the same time", net);
  expect_refused(
      {.delay_all_reduce_named_params = {{"w2", w3[0].second}}, .param_to_hook_all_reduce = w0},
      "'w2' is not the module's", net);
  expect_refused({.delay_all_reduce_named_params = {w3[0], w3[0]}, .param_to_hook_all_reduce = w0},
                 "'w3' is there twice", net);
  expect_refused({.delay_all_reduce_named_params = w3, .param_to_hook_all_reduce = w3[0].second},
                 "is delayed itself", net);
  expect_refused({.delay_all_reduce_named_params = w3, .param_to_hook_all_reduce = at::ones({2})},
                 "would never be ready", net);
  expect_refused({.delay_all_reduce_named_params = w3,
                  .param_to_hook_all_reduce = w0,
                  .mean_over_samples = true},
                 "does not weigh", net);
  DelayedTrial trial(init_process_group(), {3}, 0);
  EXPECT_THAT([&] { trial.ddp->join([] {}); },
              ThrowsMessage<UsageError>(HasSubstr("delay_all_reduce_named_params")));
  net->weights[3].set_requires_grad(false);
  expect_refused({.delay_all_reduce_named_params = w3, .param_to_hook_all_reduce = w0},
                 "requires no gradient", net);
}

}  // namespace
}  // namespace lockstep
