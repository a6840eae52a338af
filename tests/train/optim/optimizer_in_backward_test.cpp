// DistributedDataParallel::register_optimizer_in_backward() with the optimizers of this layer.
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/hooks/default_hooks.h"
#include "lockstep/train/amp/grad_scaler.h"
#include "lockstep/train/optim/adam.h"
#include "lockstep/train/optim/sgd.h"
#include "lockstep/train/optim/zero_redundancy_optimizer.h"
#include "tests/parallel/trial.h"

namespace lockstep::optim {
namespace {

using testing::batch_of;
using ::testing::HasSubstr;
using testing::kAllLayers;
using testing::Layers;
using testing::on_ranks;
using testing::Order;
using ::testing::ThrowsMessage;

constexpr double kOneEach = 0.05;  // MiB: less than a weight has.

// Layers with an optimizer that steps in backward or after it.
template <class Optimizer>
class Trained {
 public:
  Trained(const Group& world, bool in_backward, const typename Optimizer::Options& options,
          const DistributedDataParallelOptions& ddp_options)
      : world_(world),
        ddp_(net_, world, ddp_options),
        optimizer_(ddp_.parameters(), options),
        in_backward_(in_backward) {
    if (in_backward) {
      ddp_.register_optimizer_in_backward(optimizer_);
    }
  }

  void add(int step, const Order& order = kAllLayers) {
    ddp_(batch_of(world_.rank(), step), order).sum().backward();
  }
  void step_after() {
    if (!in_backward_) {
      optimizer_.step();
    }
  }
  void step(int step, const Order& order = kAllLayers) {
    optimizer_.zero_grad(set_to_none);
    add(step, order);
    step_after();
  }

  void expect_same(Trained& other, int step) {
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(net_->weights[i].equal(other.net_->weights[i])) << "step " << step << " w" << i;
    }
  }

  DistributedDataParallel<Layers>& ddp() { return ddp_; }
  Layers& net() { return *net_; }
  Optimizer& optimizer() { return optimizer_; }

  bool set_to_none = true;

 private:
  Group world_;
  std::shared_ptr<Layers> net_ = std::make_shared<Layers>();
  DistributedDataParallel<Layers> ddp_;
  Optimizer optimizer_;
  bool in_backward_;
};

// The same training with steps after backward and in it, which `body` is given.
template <class Optimizer, class Body>
void expect_same_bits(const typename Optimizer::Options& options, const Body& body,
                      DistributedDataParallelOptions ddp_options = {}) {
  ddp_options.bucket_cap_mb = kOneEach;
  on_ranks([&](Group& world) {
    Trained<Optimizer> after(world, false, options, ddp_options);
    Trained<Optimizer> inside(world, true, options, ddp_options);
    for (int step = 0; step < 5; ++step) {
      body(after, step, world);
      body(inside, step, world);
      inside.expect_same(after, step);
    }
    EXPECT_FALSE(inside.net().weights[0].equal(Layers().weights[0]));  // Steps were made.
  });
}

const auto kPlainStep = [](auto& trained, int step, const Group&) { trained.step(step); };

TEST(OptimizerInBackward, SgdHasTheBitsOfAStepAfterIt) {
  expect_same_bits<SGD>({.lr = 0.1}, kPlainStep);
  expect_same_bits<SGD>({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-2, .nesterov = true},
                        kPlainStep);
  expect_same_bits<SGD>({.lr = 0.1, .momentum = 0.9, .fused = true}, kPlainStep);
  expect_same_bits<SGD>({.lr = 0.1, .momentum = 0.9}, kPlainStep,
                        {.gradient_as_bucket_view = false});
}

TEST(OptimizerInBackward, AdamWHasTheBitsOfAStepAfterIt) {
  expect_same_bits<AdamW>({.lr = 0.01}, kPlainStep);
  expect_same_bits<AdamW>({.lr = 0.01, .amsgrad = true, .fused = true}, kPlainStep);
  expect_same_bits<AdamW>({.lr = 0.01}, kPlainStep, {.static_graph = true});
}

TEST(OptimizerInBackward, MakesNoStepInsideNoSync) {
  expect_same_bits<SGD>({.lr = 0.1, .momentum = 0.9}, [](auto& trained, int step, const Group&) {
    trained.optimizer().zero_grad();
    {
      const auto alone = trained.ddp().no_sync();
      trained.add(step);
    }
    trained.add(step + 100);
    trained.step_after();
  });
}

TEST(OptimizerInBackward, LeavesUnusedParametersAloneAsAStepDoes) {
  for (const bool to_none : {true, false}) {
    expect_same_bits<SGD>({.lr = 0.1, .momentum = 0.9},
                          [to_none](auto& trained, int step, const Group& world) {
                            trained.set_to_none = to_none;
                            trained.step(
                                step, (step + world.rank()) % 2 == 0 ? Order{0, 3} : Order{0, 1});
                          },
                          {.find_unused_parameters = true});
  }
}

TEST(OptimizerInBackward, StepsParametersThatAreInNoBucket) {
  expect_same_bits<AdamW>({.lr = 0.01}, kPlainStep, {.parameters_to_ignore = {"w1"}});
}

TEST(OptimizerInBackward, WorksInsideJoin) {
  on_ranks([](Group& world) {
    const DistributedDataParallelOptions options{.bucket_cap_mb = kOneEach};
    Trained<SGD> after(world, false, {.lr = 0.1, .momentum = 0.9}, options);
    Trained<SGD> inside(world, true, {.lr = 0.1, .momentum = 0.9}, options);
    for (auto* trained : {&after, &inside}) {
      trained->ddp().join([&] {
        for (int step = 0; step < 5 - world.rank(); ++step) {
          trained->step(step);
        }
      });
    }
    inside.expect_same(after, 5);
  });
}

// A bucket is stepped before the last one is there.
TEST(OptimizerInBackward, StepsABucketWhileLaterOnesTravel) {
  on_ranks([](Group& world) {
    Trained<SGD> trained(world, true, {.lr = 0.1}, {.bucket_cap_mb = kOneEach});
    const auto initial = Layers();
    int stepped = 0;
    trained.ddp().register_comm_hook([&](GradBucket& bucket) {
      return allreduce_hook(world)(bucket).then(
          [&, last = bucket.is_last() && bucket.index() > 0](const at::Tensor& sum) {
            for (std::size_t i = 0; last && i < 4; ++i) {
              stepped += trained.net().weights[i].equal(initial.weights[i]) ? 0 : 1;
            }
            return sum;
          });
    });
    trained.step(0);  // One bucket: the order of gradients is not known yet.
    EXPECT_EQ(stepped, 0);
    {
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < 4; ++i) {
        trained.net().weights[i].copy_(initial.weights[i]);
      }
    }
    trained.step(1);
    EXPECT_EQ(stepped, 3);
  });
}

TEST(OptimizerInBackward, RefusesStepsOfOthers) {
  const auto world = init_process_group();
  Trained<SGD> trained(world, true, {.lr = 0.1}, {});
  trained.step(0);
  EXPECT_THAT([&] { trained.optimizer().step(); },
              ThrowsMessage<UsageError>(HasSubstr("whose steps backward makes")));
  amp::GradScaler scaler;
  static_cast<void>(scaler.scale(at::ones({1})));
  EXPECT_THAT([&] { scaler.step(trained.optimizer()); },
              ThrowsMessage<UsageError>(HasSubstr("still scaled")));
  EXPECT_THAT([&] { scaler.unscale_(trained.optimizer()); },
              ThrowsMessage<UsageError>(HasSubstr("still scaled")));
  EXPECT_THAT([&] { trained.ddp().register_optimizer_in_backward(trained.optimizer()); },
              ThrowsMessage<UsageError>(HasSubstr("makes its steps already")));
}

TEST(OptimizerInBackward, RefusesWhatCannotStepInParts) {
  const auto world = init_process_group();
  const auto net = std::make_shared<Layers>();
  DistributedDataParallel ddp(net, world);
  ZeroRedundancyOptimizer<SGD> sharded(world, ddp.parameters(), {.lr = 0.1});
  EXPECT_THAT([&] { ddp.register_optimizer_in_backward(sharded); },
              ThrowsMessage<UsageError>(HasSubstr("in parts")));
  SGD first(ddp.parameters(), {.lr = 0.1});
  SGD second(ddp.parameters(), {.lr = 0.1});
  const auto waits = ddp(batch_of(0, 0), kAllLayers);
  EXPECT_THAT([&] { ddp.register_optimizer_in_backward(first); },
              ThrowsMessage<UsageError>(HasSubstr("between steps")));
  waits.sum().backward();
  ddp.register_optimizer_in_backward(first);
  EXPECT_THAT([&] { ddp.register_optimizer_in_backward(second); },
              ThrowsMessage<UsageError>(HasSubstr("there is an optimizer already")));
  second.step();  // It is as before.

  DistributedDataParallel delayed(net, world,
                                  {.delay_all_reduce_named_params = {{"w3", net->weights[3]}},
                                   .param_to_hook_all_reduce = net->weights[0]});
  EXPECT_THAT([&] { delayed.register_optimizer_in_backward(second); },
              ThrowsMessage<UsageError>(HasSubstr("parameters are delayed")));
}

}  // namespace
}  // namespace lockstep::optim
