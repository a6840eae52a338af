// Ranks that share one GPU, over shared memory and over NCCL, train as one rank does with the whole
// batch.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <chrono>
#include <csignal>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "lockstep/device/graphed_step.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/comm/nccl_ranks.h"
#include "tests/comm/ranks.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

constexpr std::int64_t kRows = 24;
constexpr const char* kSharedMemory = "cpu:shm,cuda:shm";

torch::nn::Sequential wide_net() {
  torch::manual_seed(0);
  torch::nn::Sequential net(torch::nn::Linear(64, 512), torch::nn::Tanh(),
                            torch::nn::Linear(512, 512), torch::nn::Tanh(),
                            torch::nn::Linear(512, 1));
  net->to(at::kCUDA);
  return net;
}

at::Tensor whole_batch(int step) {
  return at::arange(kRows * 64, at::TensorOptions(at::kCUDA).dtype(at::kFloat))
      .add(step)
      .sin()
      .view({kRows, 64});
}

template <class Model>
std::vector<double> losses_of(Model& model, const std::vector<at::Tensor>& parameters,
                              const std::function<at::Tensor(int)>& batch) {
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<double> losses;
  for (int i = 0; i < 8; ++i) {
    optimizer.zero_grad();
    const auto images = batch(i);
    const auto loss = at::mse_loss(model.forward(images), images.narrow(1, 0, 1));
    loss.backward();
    optimizer.step();
    losses.push_back(loss.template item<double>());
  }
  return losses;
}

void expect_training_as_one(int ranks, const std::string& backend) {
  testing::run_ranks(
      ranks,
      [](Group& world) {
        auto alone = wide_net();
        const auto expected = losses_of(*alone, alone->parameters(), whole_batch);
        auto net = wide_net();
        DistributedDataParallel ddp(net, world);
        const auto own = losses_of(ddp, ddp.parameters(), [&](int step) {
          const auto rows = kRows / world.size();
          return whole_batch(step).narrow(0, world.rank() * rows, rows);
        });
        EXPECT_LT(expected.back(), expected.front() / 2);
        for (std::size_t i = 0; i < own.size(); ++i) {
          const auto mean = at::full({1}, own[i], at::kDouble);
          world.all_reduce(mean, {.op = ReduceOp::kAvg}).wait();
          EXPECT_NEAR(mean.item<double>(), expected[i], 1e-5 * expected.front()) << "step " << i;
        }
      },
      backend);
}

TEST(SharedGpu, TwoRanksTrainAsOneWithTheWholeBatch) { expect_training_as_one(2, kSharedMemory); }

// With three ranks gradients are divided before NCCL adds them, with two meanwhile.
TEST(SharedGpu, RanksOverNcclTrainAsOneWithTheWholeBatch) {
  LOCKSTEP_SHARES_GPUS_OVER_NCCL();
  expect_training_as_one(2, testing::kNcclBesideShm);
  expect_training_as_one(3, testing::kNcclBesideShm);
}

using Clock = std::chrono::steady_clock;

// All processes of a host have one such clock.
std::vector<std::uint8_t> bytes_of_time(Clock::time_point time) {
  const auto text = std::to_string(time.time_since_epoch().count());
  return {text.begin(), text.end()};
}
Clock::time_point time_of_bytes(const std::vector<std::uint8_t>& bytes) {
  return Clock::time_point(Clock::duration(std::stoll(std::string(bytes.begin(), bytes.end()))));
}

// The body of both ranks: rank 1 kills itself in a backward. Returns 0 if rank 0 learned of it.
int train_until_rank_1_dies(const std::string& file, int rank) {
  auto world = init_process_group({.backend = kSharedMemory,
                                   .init_method = "file://" + file,
                                   .rank = rank,
                                   .world_size = 2,
                                   .timeout = std::chrono::seconds(60)});
  auto net = wide_net();
  DistributedDataParallel ddp(net, world);
  ddp(whole_batch(0)).sum().backward();
  auto loss = ddp(whole_batch(1)).sum();
  if (rank == 1) {
    net->parameters().front().register_hook([&](const at::Tensor&) {
      world.store()->set("died", bytes_of_time(Clock::now()));
      ::raise(SIGKILL);
    });
  }
  EXPECT_THAT([&] { loss.backward(); },
              ::testing::ThrowsMessage<PeerError>(::testing::AllOf(
                  ::testing::HasSubstr("DistributedDataParallel, backward of step 2 on rank 0"),
                  ::testing::HasSubstr("rank 1 (pid "), ::testing::HasSubstr("SIGKILL"))));
  const auto now = Clock::now();
  EXPECT_LT(now - time_of_bytes(world.store()->get("died")), std::chrono::seconds(1));
  return ::testing::Test::HasFailure() ? 1 : 0;
}

// Not by spawn(), which ends the others when one dies.
TEST(SharedGpu, AKilledRankIsNamedSoon) {
  const test::TemporaryFolder folder;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(test::fork_child(
        [&, rank] { return train_until_rank_1_dies(folder.file("store"), rank); }));
  }
  EXPECT_EQ(test::wait_for(ranks[0]), 0);
  const int killed = test::wait_for(ranks[1]);
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL);
}

// Over NCCL nothing throws in the step: the host learns of it from shared memory, and the group
// ends without waiting for what rank 1 was to sum. Returns 0 if rank 0 learned of it.
enum class LearnsIn { kBarrier, kSynchronize };
int train_over_nccl_until_rank_1_dies(const std::string& file, int rank, LearnsIn where) {
  const std::string place = where == LearnsIn::kBarrier ? "barrier #1" : "the work of cuda:0";
  try {
    auto world = init_process_group({.backend = testing::kNcclBesideShm,
                                     .init_method = "file://" + file,
                                     .rank = rank,
                                     .world_size = 2,
                                     .timeout = std::chrono::seconds(60)});
    auto net = wide_net();
    DistributedDataParallel ddp(net, world);
    ddp(whole_batch(0)).sum().backward();
    auto loss = ddp(whole_batch(1)).sum();
    if (rank == 1) {
      ::raise(SIGKILL);
    }
    loss.backward();
    if (where == LearnsIn::kBarrier) {
      world.barrier();
    } else {
      world.synchronize();
    }
  } catch (const PeerError& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::HasSubstr(place + " on rank 0 of 2: rank 1 (pid "),
                                 ::testing::HasSubstr(" ended (in backward of step 2")));
    return ::testing::Test::HasFailure() ? 1 : 0;
  }
  return 2;
}

void expect_rank_0_learns_it_in(LearnsIn where) {
  const test::TemporaryFolder folder;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(test::fork_child([&, rank] {
      return train_over_nccl_until_rank_1_dies(folder.file("store"), rank, where);
    }));
  }
  const int killed = test::wait_for(ranks[1]);
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL);
  const auto begin = Clock::now();
  EXPECT_EQ(test::wait_for(ranks[0]), 0);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

TEST(SharedGpu, AnErrorIsNotHeldUpByASumThatWaits) {
  LOCKSTEP_SHARES_GPUS_OVER_NCCL();
  expect_rank_0_learns_it_in(LearnsIn::kBarrier);
}

TEST(SharedGpu, AHostThatWaitsForItsGpuLearnsOfAKilledRank) {
  LOCKSTEP_SHARES_GPUS_OVER_NCCL();
  expect_rank_0_learns_it_in(LearnsIn::kSynchronize);
}

TEST(SharedGpu, AStepThatTheHostSumsRunsEagerly) {
  testing::run_ranks(
      2,
      [](Group& world) {
        auto net = wide_net();
        DistributedDataParallel ddp(net, world);
        GraphedStep step([&](const at::Tensor& images) {
          ddp.zero_grad();
          const auto loss = ddp(images).sum();
          loss.backward();
          return loss;
        });
        for (int i = 0; i < 6; ++i) {
          step(whole_batch(i));
        }
        EXPECT_THAT(step.why_eager(), ::testing::HasSubstr("use the backend nccl"));
        EXPECT_EQ(ddp.stats().steps, 6);
      },
      kSharedMemory);
}

// Backward runs hooks on a thread of autograd, which records nothing itself.
TEST(SharedGpu, ACollectiveInBackwardAloneRunsEagerlyToo) {
  testing::run_ranks(
      2,
      [](Group& world) {
        const auto weight = at::ones({4}, at::kCUDA).requires_grad_();
        GraphedStep step([&](const at::Tensor& images) {
          weight.mutable_grad().reset();
          const auto product = weight * images;
          product.register_hook([&](const at::Tensor& grad) {
            auto sum = grad.clone(at::MemoryFormat::Contiguous);
            world.all_reduce(sum).wait();
            return sum;
          });
          const auto loss = product.sum();
          loss.backward();
          return loss;
        });
        const auto images = at::ones({4}, at::kCUDA) * (world.rank() + 1);
        for (int i = 0; i < 6; ++i) {
          step(images);
          EXPECT_TRUE(weight.grad().equal(images * world.size())) << "call " << i;
        }
        EXPECT_FALSE(step.is_recorded());
        EXPECT_THAT(step.why_eager(), ::testing::HasSubstr("cannot be recorded as a CUDA graph"));
      },
      kSharedMemory);
}

}  // namespace
}  // namespace lockstep
