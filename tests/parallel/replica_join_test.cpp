#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/hooks/default_hooks.h"
#include "tests/parallel/nets.h"
#include "tests/parallel/trial.h"

namespace lockstep {
namespace {

using ::testing::AnyOf;
using testing::Branches;
using ::testing::HasSubstr;
using testing::input_of;
using testing::kAllLayers;
using testing::run_ranks;
using testing::same_on_all_ranks;
using ::testing::ThrowsMessage;
using testing::Trial;

// Rank r has 5 - r inputs.
int inputs_of(int rank) { return 5 - rank; }

int ranks_with_input(int step, int ranks) {
  int count = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    count += step < inputs_of(rank) ? 1 : 0;
  }
  return count;
}

TEST(Join, AveragesTheGradientsOfRanksThatStillHaveInputs) {
  for (const bool initial : {true, false}) {
    testing::on_ranks([initial](Group& world) {
      Trial trial(world);
      trial.ddp().join(
          [&] {
            for (int step = 0; step < inputs_of(world.rank()); ++step) {
              trial.wrapped().zero_grad();
              trial.add(step);
              const int active = ranks_with_input(step, world.size());
              const double divisor = initial ? world.size() : active;
              std::vector<at::Tensor> sums(4);
              for (int rank = 0; rank < active; ++rank) {
                const auto local = trial.local_gradients(rank, step);
                for (std::size_t i = 0; i < 4; ++i) {
                  const auto part = local[i].mul(1.0 / divisor);
                  sums[i] = sums[i].defined() ? sums[i] + part : part.clone();
                }
              }
              for (std::size_t i = 0; i < 4; ++i) {
                EXPECT_TRUE(at::allclose(trial.wrapped().weights[i].grad(), sums[i], 1e-5, 1e-7))
                    << "step " << step << " w" << i;
              }
            }
          },
          {.divide_by_initial_world_size = initial});
      EXPECT_EQ(trial.ddp().stats().steps, 5);
      trial.step(9);  // Afterwards all is as before.
    });
  }
}

TEST(Join, LeavesGradientsOfARankWithoutInputsAlone) {
  run_ranks(2, [](Group& world) {
    Trial trial(world);
    at::Tensor last;
    trial.ddp().join([&] {
      for (int step = 0; step < (world.rank() == 0 ? 2 : 5); ++step) {
        trial.wrapped().zero_grad();
        trial.add(step);
      }
      last = trial.wrapped().weights[0].grad().clone();
    });
    EXPECT_TRUE(trial.wrapped().weights[0].grad().equal(last));
  });
}

TEST(Join, EndsWithTheModelAndBuffersOfARankThatHadTheMost) {
  run_ranks(3, [](Group& world) {
    torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
    DistributedDataParallel ddp(net, world);
    ddp.join([&] {
      for (int step = 0; step < world.rank() + 1; ++step) {
        net->zero_grad();
        ddp(input_of(world.rank() + step)).square().sum().backward();
        const at::NoGradGuard no_grad;
        for (auto& parameter : net->parameters()) {
          parameter.sub_(parameter.grad(), 0.01);
        }
      }
    });
    for (const auto& parameter : net->parameters()) {
      EXPECT_TRUE(same_on_all_ranks(world, parameter));
    }
    for (const auto& buffer : net->buffers()) {
      EXPECT_TRUE(same_on_all_ranks(world, buffer));
    }
    EXPECT_EQ(net->named_buffers()["1.num_batches_tracked"].item<int>(), 3);
  });
}

TEST(Join, WorksForUnusedParametersHooksAndNoSync) {
  run_ranks(2, [](Group& world) {
    const int inputs = world.rank() == 0 ? 1 : 4;
    auto net = std::make_shared<Branches>();
    DistributedDataParallel ddp(net, world, {.find_unused_parameters = true});
    ddp.join([&] {
      for (int step = 0; step < inputs; ++step) {
        net->zero_grad();
        ddp(input_of(step), 0).first.sum().backward();
        EXPECT_FALSE(net->second->bias.grad().defined());
      }
    });
    EXPECT_EQ(net->first->bias.grad()[0].item<float>(), inputs == 1 ? 8 : 4);

    torch::nn::Linear second(4, 2);
    DistributedDataParallel hooked(second, world);
    hooked.register_comm_hook(allreduce_hook(world));
    hooked.join([&] {
      for (int step = 0; step < inputs; ++step) {
        second->zero_grad();
        {
          const auto alone = hooked.no_sync();
          hooked(input_of(step)).sum().backward();
        }
        hooked(input_of(step)).sum().backward();
      }
    });
    EXPECT_EQ(second->bias.grad()[0].item<float>(), inputs == 1 ? 16 : 8);
  });
}

// The sum of who used what comes between the first sums of buckets and those that follow them, also
// on a rank without inputs.
TEST(Join, CollectivesBehindTheFirstOfAHookMeetEachOther) {
  run_ranks(2, [](Group& world) {
    auto net = std::make_shared<Branches>();
    DistributedDataParallel ddp(net, world, {.find_unused_parameters = true});
    ddp.register_comm_hook([&world](GradBucket& bucket) {
      const auto sum = bucket.buffer();
      return TensorFuture(world.all_reduce(sum), sum).then([&world](const at::Tensor& value) {
        auto halves = value.div(2.0 * world.size());
        world.all_reduce(halves).wait();  // Both ranks have the same.
        return halves;
      });
    });
    ddp.join([&] {
      for (int step = 0; step < (world.rank() == 0 ? 1 : 4); ++step) {
        net->zero_grad();
        ddp(input_of(step), 0).first.sum().backward();
      }
    });
    EXPECT_EQ(net->first->bias.grad()[0].item<float>(), world.rank() == 0 ? 8 : 4);
  });
}

TEST(Join, ThrowsOnAllRanksIfToldSo) {
  run_ranks(2, [](Group& world) {
    torch::nn::Linear net(4, 2);
    DistributedDataParallel ddp(net, world);
    const auto train = [&] {
      for (int step = 0; step < world.rank() + 1; ++step) {
        ddp(input_of(step)).sum().backward();
      }
    };
    EXPECT_THAT([&] { ddp.join(train, {.throw_on_early_termination = true}); },
                ThrowsMessage<UsageError>(HasSubstr("no more inputs")));
    net->zero_grad();
    ddp(input_of(world.rank())).sum().backward();  // Ranks are still in step.
    EXPECT_TRUE(same_on_all_ranks(world, net->weight.grad()));
  });
}

// As many rows as the rank has in this step: 0 to 4.
at::Tensor rows_of(int rank, int step) {
  return input_of(rank + step).narrow(0, 0, (rank * 2 + step) % 5);
}

TEST(MeanOverSamples, GivesTheGradientOfTheMeanOverAllSamples) {
  run_ranks(3, [](Group& world) {
    const auto make = [] {
      torch::manual_seed(1);
      return torch::nn::Sequential(torch::nn::Linear(4, 300), torch::nn::Linear(300, 300));
    };
    auto net = make();
    auto alone = make();
    DistributedDataParallel ddp(net, world, {.mean_over_samples = true});
    for (int step = 0; step < 5; ++step) {
      net->zero_grad();
      ddp(rows_of(world.rank(), step)).square().mean().backward();
      alone->zero_grad();
      const auto all = at::cat({rows_of(0, step), rows_of(1, step), rows_of(2, step)});
      alone->forward(all).square().mean().backward();
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(
            at::allclose(net->parameters()[i].grad(), alone->parameters()[i].grad(), 1e-4, 1e-6))
            << "step " << step << " parameter " << i;
      }
    }
  });
}

TEST(MeanOverSamples, OneRankWithAnEmptyBatchHasZeros) {
  const auto world = init_process_group();
  torch::nn::Linear net(4, 2);
  DistributedDataParallel ddp(net, world, {.mean_over_samples = true});
  const auto train = [&](std::int64_t rows) {
    net->zero_grad();
    ddp(input_of(0).narrow(0, 0, rows)).square().mean().backward();
  };
  train(0);
  EXPECT_TRUE(net->weight.grad().eq(0).all().item<bool>());
  EXPECT_TRUE(net->bias.grad().eq(0).all().item<bool>());
  train(3);
  EXPECT_TRUE(net->bias.grad().ne(0).all().item<bool>());
}

TEST(MeanOverSamples, TakesTheNumberThatItIsTold) {
  run_ranks(2, [](Group& world) {
    torch::nn::Linear net(4, 2);
    DistributedDataParallel ddp(net, world, {.mean_over_samples = true});
    const double samples = world.rank() == 0 ? 3 : 1;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      {
        const auto alone = ddp.no_sync();
        ddp(input_of(0));  // Its rows do not count in the next forward.
      }
      if (step < 2) {
        ddp.set_samples(samples);
      }
      (ddp(input_of(0)).sum() * (world.rank() + 1)).backward();
      EXPECT_EQ(net->bias.grad()[0].item<float>(), 8 * (step < 2 ? (3 * 1 + 1 * 2) / 4. : 1.5));
    }
  });
}

TEST(MeanOverSamples, RefusesWhatItCannotWeigh) {
  struct Number : torch::nn::Module {
    Number() { weight = register_parameter("weight", at::ones({2})); }
    at::Tensor forward(double factor) { return weight * factor; }
    at::Tensor weight;
  };
  const auto world = init_process_group();
  DistributedDataParallel ddp(std::make_shared<Number>(), world, {.mean_over_samples = true});
  EXPECT_THAT([&] { ddp(2.0); }, ThrowsMessage<UsageError>(HasSubstr("call set_samples()")));
  EXPECT_THAT([&] { ddp.register_comm_hook(noop_hook()); },
              ThrowsMessage<UsageError>(HasSubstr("a hook divides by itself")));
  EXPECT_THAT([&] { ddp.join([] {}); }, ThrowsMessage<UsageError>(HasSubstr("mean_over_samples")));
}

}  // namespace
}  // namespace lockstep
