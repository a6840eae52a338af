// Whole training steps, with DistributedDataParallel, as CUDA graphs: real NCCL groups of one rank,
// and of ranks that share a GPU.
#include <ATen/Context.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <chrono>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/device/graphed_step.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/comm/nccl_ranks.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 9;
constexpr int kOddStep = 6;  // Has a smaller batch on rank 0, and an evaluation before it.

torch::nn::Sequential small_net() {
  torch::manual_seed(0);
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)),
                            torch::nn::BatchNorm2d(8), torch::nn::ReLU(),
                            torch::nn::Functional([](const at::Tensor& x) { return x.flatten(1); }),
                            torch::nn::Dropout(0.5), torch::nn::Linear(8 * 8 * 8, 10));
  net->to(at::kCUDA);
  return net;
}

// Where the function does what cannot be recorded.
enum class Fault { kNone, kForward, kBackward, kEnd };

struct Settings {
  bool graphed = true;
  DistributedDataParallelOptions ddp;
  Fault fault = Fault::kNone;
};

struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> state;
  std::size_t parameters = 0;  // The first ones of `state`.
  bool recorded = false;
  std::string why_eager;
  std::uint64_t steps = 0;
};

Trained train(const Group& world, const Settings& settings) {
  auto net = small_net();
  DistributedDataParallel ddp(net, world, settings.ddp);
  torch::optim::SGD optimizer(ddp.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const auto wait_for_gpu = [&](const at::Tensor& any, Fault here) {
    if (settings.fault == here) {
      any.sum().item<double>();
    }
  };
  // The last gradient of a backward: others are in their buckets then.
  net->parameters().front().register_hook(
      [&](const at::Tensor& grad) { wait_for_gpu(grad, Fault::kBackward); });
  GraphedStep step(
      [&](const at::Tensor& images, const at::Tensor& labels) {
        optimizer.zero_grad();
        wait_for_gpu(images, Fault::kForward);
        auto loss = at::cross_entropy_loss(ddp(images), labels);
        loss.backward();
        optimizer.step();
        wait_for_gpu(loss, Fault::kEnd);
        return loss;
      },
      {.record = settings.graphed});
  torch::manual_seed(1 + static_cast<std::uint64_t>(world.rank()));
  Trained found;
  for (int i = 0; i < kSteps; ++i) {
    if (i == kOddStep) {
      const at::NoGradGuard no_grad;
      net->eval();
      ddp(at::ones({4, 3, 8, 8}, at::kCUDA));
      net->train();
    }
    const std::int64_t rows = i == kOddStep && world.rank() == 0 ? 5 : 16;
    const auto images = at::randn({rows, 3, 8, 8}, at::kCUDA);
    const auto labels = at::randint(10, {rows}, at::TensorOptions(at::kCUDA).dtype(at::kLong));
    found.losses.push_back(step(images, labels).item<double>());
  }
  found.recorded = step.is_recorded();
  found.why_eager = step.why_eager();
  found.steps = ddp.stats().steps;
  for (const auto& tensors : {net->parameters(), net->buffers()}) {
    for (const auto& tensor : tensors) {
      found.state.push_back(tensor.detach().cpu());
    }
  }
  found.parameters = net->parameters().size();
  return found;
}

void expect_same_bits(const Trained& found, const Trained& expected) {
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.steps, kSteps);
  ASSERT_EQ(found.state.size(), expected.state.size());
  for (std::size_t i = 0; i < found.state.size(); ++i) {
    EXPECT_TRUE(found.state[i].equal(expected.state[i])) << "tensor " << i;
  }
}

void on_a_deterministic_gpu(const std::function<void(Group&)>& body, int ranks = 1) {
  testing::run_ranks(
      ranks,
      [&](Group& world) {
        ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/1);
        at::globalContext().setDeterministicAlgorithms(/*b=*/true, /*warn_only=*/false);
        at::globalContext().setBenchmarkCuDNN(false);
        body(world);
      },
      testing::kNcclBesideShm);
}

void expect_same_parameters(const Group& world, const Trained& trained) {
  for (std::size_t i = 0; i < trained.parameters; ++i) {
    const auto of_rank_0 = trained.state[i].clone();
    world.broadcast(of_rank_0).wait();
    EXPECT_TRUE(of_rank_0.equal(trained.state[i])) << "tensor " << i;
  }
}

// With dropout, and a batch of another shape in the middle.
TEST(GraphedDdp, TrainsBitForBitAsEagerly) {
  on_a_deterministic_gpu([](Group& world) {
    for (const bool reduce : {false, true}) {
      for (const bool views : {true, false}) {
        const DistributedDataParallelOptions options{.gradient_as_bucket_view = views,
                                                     .reduce_alone = reduce};
        const auto eager = train(world, {.graphed = false, .ddp = options});
        const auto graphed = train(world, {.ddp = options});
        EXPECT_FALSE(eager.recorded);
        EXPECT_TRUE(graphed.recorded) << graphed.why_eager;
        expect_same_bits(graphed, eager);
      }
    }
  });
}

// Rank 0 runs the odd step eagerly while rank 1 replays; buffers are broadcast in all of them.
TEST(GraphedDdp, TwoRanksTrainBitForBitAsEagerly) {
  LOCKSTEP_SHARES_GPUS_OVER_NCCL();
  on_a_deterministic_gpu(
      [](Group& world) {
        for (const bool views : {true, false}) {
          const DistributedDataParallelOptions options{.gradient_as_bucket_view = views};
          const auto eager = train(world, {.graphed = false, .ddp = options});
          const auto graphed = train(world, {.ddp = options});
          EXPECT_TRUE(graphed.recorded) << graphed.why_eager;
          expect_same_bits(graphed, eager);
          expect_same_parameters(world, graphed);
        }
      },
      2);
}

// Each step has two forwards, and the second follows one in no_sync: it broadcasts nothing, in no
// mode. Rank 0 is called with an odd batch while rank 1 replays.
TEST(GraphedDdp, StepsOfTwoForwardsBroadcastBuffersAsOftenAsEagerOnes) {
  LOCKSTEP_SHARES_GPUS_OVER_NCCL();
  on_a_deterministic_gpu(
      [](Group& world) {
        const auto train_with = [&](bool record) {
          at::manual_seed(world.rank());
          auto net = small_net();
          DistributedDataParallel ddp(net, world);
          GraphedStep step(
              [&](const at::Tensor& images) {
                net->zero_grad();
                {
                  const auto alone = ddp.no_sync();
                  ddp(images).square().sum().backward();
                }
                const auto loss = ddp(images).square().sum();
                loss.backward();
                return loss;
              },
              {.device = world.device(), .record = record});
          for (int i = 0; i < 8; ++i) {
            at::manual_seed(10 * i + world.rank());
            const auto images = at::randn({16, 3, 8, 8}, at::kCUDA);
            step(i == 6 && world.rank() == 0 ? images.narrow(0, 0, 5) : images);
          }
          EXPECT_EQ(step.is_recorded(), record) << step.why_eager();
          std::vector<at::Tensor> state;
          for (const auto& tensors : {net->parameters(), net->buffers()}) {
            state.insert(state.end(), tensors.begin(), tensors.end());
          }
          return state;
        };
        const auto eager = train_with(false);
        const auto graphed = train_with(true);
        for (std::size_t i = 0; i < eager.size(); ++i) {
          EXPECT_TRUE(graphed[i].equal(eager[i])) << "tensor " << i;
        }
      },
      2);
}

// Rank 0 evaluates an odd batch eagerly while rank 1 replays, and then the other way round.
TEST(GraphedDdp, RanksMayEvaluateEagerlyWhatOthersReplay) {
  LOCKSTEP_SHARES_GPUS_OVER_NCCL();
  on_a_deterministic_gpu(
      [](Group& world) {
        auto net = small_net();
        DistributedDataParallel ddp(net, world);
        GraphedStep evaluate(
            [&](const at::Tensor& images) {
              const at::NoGradGuard no_grad;
              return ddp(images);
            },
            {.device = world.device()});
        const auto images = at::ones({16, 3, 8, 8}, at::kCUDA);
        for (int i = 0; i < 8; ++i) {
          evaluate(i >= 5 && i % 2 == world.rank() ? images.narrow(0, 0, 5) : images);
          ddp(images).square().sum().backward();
        }
        EXPECT_TRUE(evaluate.is_recorded()) << evaluate.why_eager();
        world.synchronize();
        world.barrier();
      },
      2);
}

void destroy_before_the_recorded_step(const Group& group) {
  Group world = group;
  auto net = small_net();
  DistributedDataParallel ddp(net, world, {.reduce_alone = true});
  GraphedStep step([&](const at::Tensor& images) {
    net->zero_grad();
    const auto loss = ddp(images).square().sum();
    loss.backward();
    return loss;
  });
  for (int i = 0; i < 6; ++i) {
    step(at::ones({16, 3, 8, 8}, at::kCUDA));
  }
  EXPECT_TRUE(step.is_recorded()) << step.why_eager();
  const auto begin = std::chrono::steady_clock::now();
  world.destroy();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_THAT([&] { step(step.inputs()[0]); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr(
                  "it uses the process group of rank " + std::to_string(world.rank()) + " of ")));
}

TEST(GraphedDdp, TheGroupCanBeDestroyedBeforeTheRecordedStep) {
  on_a_deterministic_gpu(destroy_before_the_recorded_step);
}

// A communicator of several ranks waits for the graphs that it is in.
TEST(GraphedDdp, TheGroupOfTwoRanksCanBeDestroyedBeforeTheRecordedStep) {
  LOCKSTEP_SHARES_GPUS_OVER_NCCL();
  on_a_deterministic_gpu(destroy_before_the_recorded_step, 2);
}

TEST(GraphedDdp, AStaticGraphIsRecorded) {
  on_a_deterministic_gpu([](Group& world) {
    const DistributedDataParallelOptions options{.static_graph = true, .reduce_alone = true};
    const auto graphed = train(world, {.ddp = options});
    EXPECT_TRUE(graphed.recorded) << graphed.why_eager;
    expect_same_bits(graphed, train(world, {.graphed = false, .ddp = options}));
  });
}

TEST(GraphedDdp, AFailedRecordingDoesNotDisturbTraining) {
  on_a_deterministic_gpu([](Group& world) {
    const DistributedDataParallelOptions options{.reduce_alone = true};
    const auto eager = train(world, {.graphed = false, .ddp = options});
    for (const Fault fault : {Fault::kForward, Fault::kBackward, Fault::kEnd}) {
      const auto found = train(world, {.ddp = options, .fault = fault});
      EXPECT_FALSE(found.recorded);
      EXPECT_THAT(found.why_eager, HasSubstr("captur"));
      expect_same_bits(found, eager);
    }
  });
}

// An eager step leaves memory to a gradient that was kept, and replays go on writing to it.
TEST(GraphedDdp, ReplaysKeepTheMemoryOfTheirBuckets) {
  on_a_deterministic_gpu([](Group& world) {
    auto net = small_net();
    DistributedDataParallel ddp(net, world, {.reduce_alone = true});
    GraphedStep step([&](const at::Tensor& images) {
      net->zero_grad();
      const auto loss = ddp(images).square().sum();
      loss.backward();
      return loss;
    });
    const auto images = at::randn({16, 3, 8, 8}, at::kCUDA);
    for (int i = 0; i < 5; ++i) {
      step(images);
    }
    ASSERT_TRUE(step.is_recorded()) << step.why_eager();
    auto kept = net->parameters().front().grad();
    const auto memory = kept.storage().getWeakStorageImpl();
    step(images.narrow(0, 0, 5));
    ASSERT_FALSE(net->parameters().front().grad().is_alias_of(kept));
    kept.reset();
    EXPECT_FALSE(memory.expired());
    step(images);
    EXPECT_FALSE(memory.expired());
    EXPECT_EQ(ddp.stats().steps, 7);
  });
}

TEST(GraphedDdp, SaysWhichOptionCannotBeRecorded) {
  on_a_deterministic_gpu([](Group& world) {
    const DistributedDataParallelOptions options{.find_unused_parameters = true};
    const auto found = train(world, {.ddp = options});
    EXPECT_FALSE(found.recorded);
    EXPECT_THAT(found.why_eager, HasSubstr("find_unused_parameters"));
    expect_same_bits(found, train(world, {.graphed = false, .ddp = options}));
  });
}

}  // namespace
}  // namespace lockstep
