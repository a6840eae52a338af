#include "lockstep/parallel/data_parallel/replicas.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/parallel/in_child.h"

namespace lockstep::parallel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<at::Device> kThree(3, at::Device(at::kCPU));

std::vector<std::int64_t> rows(const std::vector<at::Tensor>& pieces, std::int64_t dim) {
  std::vector<std::int64_t> sizes;
  for (const auto& piece : pieces) {
    sizes.push_back(piece.size(dim));
  }
  return sizes;
}

TEST(Scatter, DealsRowsOutAsChunkDoes) {
  EXPECT_THAT(rows(scatter(at::arange(5), kThree, 0), 0), ElementsAre(2, 2, 1));
  EXPECT_THAT(rows(scatter(at::arange(2), kThree, 0), 0), ElementsAre(1, 1));
  EXPECT_THAT(rows(scatter(at::arange(12).view({2, 6}), kThree, 1), 1), ElementsAre(2, 2, 2));
  EXPECT_THAT(rows(scatter(at::arange(0), kThree, 0), 0), ElementsAre(0, 0, 0));
}

TEST(Scatter, WhatHasNoRowsGoesToAll) {
  const auto scalars = scatter(at::scalar_tensor(7), kThree, 0);
  ASSERT_EQ(scalars.size(), 3U);
  EXPECT_EQ(scalars[2].item<int>(), 7);
  EXPECT_FALSE(scatter({}, kThree, 0).at(2).defined());
}

TEST(Scatter, RefusesADimensionThatATensorDoesNotHave) {
  EXPECT_EQ(scatter(at::ones({6, 2}), kThree, -1).size(), 2U);
  const auto call = [] { scatter(at::ones({6, 2}), kThree, 2); };
  EXPECT_THAT(call,
              ThrowsMessage<UsageError>(HasSubstr("dim 2, but an argument has 2 dimensions")));
}

TEST(Gather, IsTheReverse) {
  const auto whole = at::arange(12).view({2, 6});
  EXPECT_TRUE(at::equal(gather(scatter(whole, kThree, 1), at::kCPU, 1), whole));
  const auto one = at::scalar_tensor(1);
  EXPECT_EQ(gather({one, one}, at::kCPU, 1).sizes(), at::IntArrayRef({2})) << "losses";
  EXPECT_FALSE(gather({at::Tensor(), at::Tensor()}, at::kCPU, 0).defined());
}

TEST(ParallelApply, CallsEachOnceAsTheCallerWould) {
  test::in_child([] {
    at::set_num_threads(3);
    std::array<std::atomic<int>, 3> calls{};
    const at::NoGradGuard no_grad;
    parallel_apply(3, kThree, [&](std::size_t replica) {
      calls[replica] += at::GradMode::is_enabled() ? 100 : 1;
    });
    for (const auto& count : calls) {
      EXPECT_EQ(count, 1);
    }
  });
}

// Whether so many threads came here before the deadline.
class MeetingPlace {
 public:
  explicit MeetingPlace(std::size_t expected) : missing_(expected) {}
  bool arrive() {
    std::unique_lock lock(mutex_);
    if (--missing_ == 0) {
      all_here_.notify_all();
    }
    return all_here_.wait_for(lock, std::chrono::seconds(20), [&] { return missing_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::size_t missing_;
};

// With one thread for LibTorch's operations, too.
TEST(ParallelApply, ReplicasRunAtTheSameTime) {
  for (const int threads : {1, 6}) {
    test::in_child([threads] {
      at::set_num_threads(threads);
      MeetingPlace meeting(3);
      std::array<bool, 3> met{};
      parallel_apply(3, kThree, [&](std::size_t replica) { met[replica] = meeting.arrive(); });
      EXPECT_THAT(met, ElementsAre(true, true, true)) << threads << " threads";
    });
  }
}

TEST(ParallelApply, DealsOutTheThreadsOfOperations) {
  test::in_child([] {
    at::set_num_threads(6);
    std::array<int, 3> shares{};
    parallel_apply(3, kThree, [&](std::size_t i) { shares[i] = at::get_num_threads(); });
    EXPECT_THAT(shares, ElementsAre(2, 2, 2));
    EXPECT_EQ(at::get_num_threads(), 6);
    int later = 0;
    std::thread([&] { later = at::get_num_threads(); }).join();
    EXPECT_EQ(later, 6) << "a thread that LibTorch sees for the first time";
    at::set_num_threads(2);
    parallel_apply(3, kThree, [&](std::size_t i) { shares[i] = at::get_num_threads(); });
    EXPECT_THAT(shares, ElementsAre(1, 1, 1));
    parallel_apply(1, kThree, [&](std::size_t i) { shares[i] = at::get_num_threads(); });
    EXPECT_EQ(shares[0], 2) << "it is alone";
  });
}

TEST(ParallelApply, CarriesAutocastOver) {
  test::in_child([] {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
    std::array<at::ScalarType, 3> types{};
    parallel_apply(3, kThree, [&](std::size_t i) {
      types[i] = at::matmul(at::ones({2, 2}), at::ones({2, 2})).scalar_type();
    });
    EXPECT_THAT(types, ElementsAre(at::kHalf, at::kHalf, at::kHalf));
  });
}

TEST(ParallelApply, OfSeveralErrorsTheFirstReplicasIsThrown) {
  test::in_child([] {
    MeetingPlace meeting(3);
    const auto call = [&] {
      parallel_apply(3, kThree, [&](std::size_t replica) {
        meeting.arrive();
        if (replica == 2) {
          throw std::runtime_error("early");
        }
        if (replica == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          throw 7;
        }
      });
    };
    EXPECT_THROW(call(), int);
  });
}

TEST(ParallelApply, AnErrorKeepsItsTypeAndThatOfLibTorchNamesTheReplica) {
  test::in_child([] {
    const auto usage = [] {
      parallel_apply(3, kThree, [](std::size_t) { throw UsageError("wrong shape"); });
    };
    EXPECT_THAT(usage, ThrowsMessage<UsageError>("wrong shape"));
    const auto of_libtorch = [] {
      parallel_apply(3, kThree,
                     [](std::size_t replica) { TORCH_CHECK_INDEX(replica != 1, "wrong shape"); });
    };
    EXPECT_THAT(of_libtorch,
                ThrowsMessage<c10::IndexError>(AllOf(
                    HasSubstr("wrong shape"), HasSubstr("DataParallel: in replica 1 on cpu"))));
  });
}

TEST(Replicas, HaveTheModulesTensorsAndAddTheirGradients) {
  torch::nn::Sequential net(torch::nn::Linear(2, 2), torch::nn::Linear(2, 1));
  Replicas replicas(net.ptr(), kThree);
  EXPECT_EQ(&replicas[0], net.ptr().get());
  {
    const at::NoGradGuard no_grad;
    net->parameters()[0].fill_(5);
  }
  net->parameters()[3].set_requires_grad(false);
  net[1]->eval();
  replicas.replicate(3);
  const auto copy = replicas[2].parameters();
  EXPECT_EQ(copy[0][0][0].item<float>(), 5);
  EXPECT_FALSE(copy[0].is_leaf());
  EXPECT_FALSE(copy[3].requires_grad());
  EXPECT_TRUE(replicas[2].children()[0]->is_training());
  EXPECT_FALSE(replicas[2].children()[1]->is_training());
  ((replicas[1].parameters()[0] * 2).sum() + (copy[0] * 3).sum()).backward();
  EXPECT_EQ(net->parameters()[0].grad()[1][1].item<float>(), 5);
  {
    const at::NoGradGuard no_grad;
    replicas.replicate(3);
  }
  EXPECT_FALSE(replicas[2].parameters()[0].requires_grad());
  EXPECT_TRUE(copy[0].requires_grad()) << "somebody holds it, so another clone was made";
}

TEST(Replicas, DrawNoRandomNumbers) {
  auto generator = at::detail::getDefaultCPUGenerator();
  torch::nn::Linear net(2, 2);
  const auto before = generator.get_state();
  Replicas replicas(net.ptr(), kThree);
  replicas.replicate(3);
  EXPECT_TRUE(at::equal(generator.get_state(), before));
}

class NotCloneable : public torch::nn::Module {};

TEST(Replicas, OfWhatCannotBeClonedAreRefused) {
  EXPECT_THAT([] { Replicas(std::make_shared<NotCloneable>(), kThree); },
              ThrowsMessage<UsageError>(HasSubstr("HINT: derive it")));
  const torch::nn::Linear net(2, 2);
  EXPECT_THAT([&] { Replicas(net.ptr(), {at::Device(at::kMeta)}); },
              ThrowsMessage<UsageError>(HasSubstr("'weight' is on cpu, expected")));
}

TEST(Replicas, OfAModuleThatGrewAreRefused) {
  torch::nn::Sequential net(torch::nn::Linear(2, 2));
  Replicas replicas(net.ptr(), kThree);
  net->push_back(torch::nn::Linear(2, 2));
  EXPECT_THAT([&] { replicas.replicate(2); },
              ThrowsMessage<UsageError>(HasSubstr("wrap it again")));
}

}  // namespace
}  // namespace lockstep::parallel
