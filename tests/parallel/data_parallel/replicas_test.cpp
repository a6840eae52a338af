#include "lockstep/parallel/data_parallel/replicas.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/scalar_tensor.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <atomic>

#include "lockstep/base/error.h"
#include "tests/parallel/in_child.h"

namespace lockstep::parallel {
namespace {

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

TEST(ParallelApply, AnErrorNamesTheReplica) {
  test::in_child([] {
    const auto call = [] {
      parallel_apply(3, kThree, [](std::size_t replica) {
        if (replica == 1) {
          throw std::runtime_error("wrong shape");
        }
      });
    };
    EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr("replica 1 on cpu: wrong shape")));
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
