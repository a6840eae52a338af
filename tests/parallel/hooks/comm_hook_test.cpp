#include "lockstep/parallel/hooks/comm_hook.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/hooks/default_hooks.h"
#include "tests/parallel/nets.h"
#include "tests/parallel/trial.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::input_of;
using testing::run_ranks;
using testing::same_on_all_ranks;
using ::testing::ThrowsMessage;
using testing::Trial;

TEST(TensorFuture, RunsWhatFollowsOnceAndInOrder) {
  std::string order;
  auto future = TensorFuture(at::ones({1}))
                    .then([&](const at::Tensor& value) {
                      order += "a";
                      return value + 1;
                    })
                    .then([&](const at::Tensor& value) {
                      order += "b";
                      return value * 3;
                    });
  EXPECT_EQ(order, "");
  EXPECT_EQ(future.wait().item<float>(), 6);
  EXPECT_EQ(future.wait().item<float>(), 6);
  EXPECT_EQ(order, "ab");
}

TEST(TensorFuture, ThrowsAgainWhatItThrew) {
  TensorFuture future([]() -> at::Tensor { throw UsageError("lost"); });
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT([&] { (void)future.wait(); }, ThrowsMessage<UsageError>(HasSubstr("lost")));
  }
}

TEST(GradBucket, ShowsGradientsInTheShapesOfParameters) {
  const GradBucket bucket({.index = 1, .count = 2}, at::arange(10, at::kFloat),
                          {at::ones({2, 3}), at::ones({4})});
  EXPECT_TRUE(bucket.is_last());
  const auto gradients = bucket.gradients();
  EXPECT_EQ(gradients[0].sizes(), at::IntArrayRef({2, 3}));
  EXPECT_TRUE(gradients[1].equal(at::arange(6, 10, at::kFloat)));
  gradients[1].zero_();
  EXPECT_EQ(bucket.buffer()[9].item<float>(), 0);
}

TEST(GradBucket, ShowsGradientsInTheStridesOfParameters) {
  const auto parameter = at::ones({2, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
  const GradBucket bucket({}, at::arange(25, at::kFloat), {at::ones({1}), parameter});
  const auto gradient = bucket.gradients()[1];
  EXPECT_EQ(gradient.strides(), parameter.strides());
  EXPECT_EQ(gradient[0][1][0][0].item<float>(), 2);
}

TEST(CommHook, IsALambdaThatGetsEveryBucketInOrder) {
  run_ranks(2, [](Group& world) {
    torch::nn::Sequential net(torch::nn::Linear(4, 30), torch::nn::Linear(30, 2));
    DistributedDataParallel ddp(net, world, {.bucket_cap_mb = 0.0001});
    std::vector<std::size_t> indices;
    std::size_t last = 0;
    ddp.register_comm_hook([&](GradBucket& bucket) {
      indices.push_back(bucket.index());
      last += bucket.is_last() ? 1 : 0;
      const auto sum = bucket.buffer();
      return TensorFuture(world.all_reduce(sum), sum).then([](at::Tensor value) {
        return value.mul_(7);
      });
    });
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      indices.clear();
      ddp(input_of(world.rank())).sum().backward();
      EXPECT_EQ(last, step + 1U);
      EXPECT_EQ(indices.size(), ddp.stats().buckets);
      EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end()));
    }
    EXPECT_GT(indices.size(), 1);
    EXPECT_TRUE(net->parameters().back().grad().equal(at::full({2}, 8.F * 2 * 7)));
    EXPECT_TRUE(same_on_all_ranks(world, net->parameters()[0].grad()));
  });
}

TEST(CommHook, GetsGradientsThatWereMadeInTheirBuckets) {
  testing::on_ranks([](Group& world) {
    Trial trial(world);
    trial.ddp().register_comm_hook(allreduce_hook(world));
    for (int step = 0; step < 5; ++step) {
      trial.wrapped().zero_grad();
      trial.add(step);
      const auto averages = trial.averages(step, [](int) { return testing::kAllLayers; });
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(at::allclose(trial.wrapped().weights[i].grad(), averages[i], 1e-5, 1e-6));
      }
    }
    EXPECT_EQ(trial.copied(), testing::kWeightBytes);
  });
}

// Gradients lie in the bucket as the parameters did when they were wrapped.
TEST(CommHook, ShowsGradientsOfAParameterThatGotOtherStrides) {
  run_ranks(2, [](Group& world) {
    torch::nn::Linear net(4, 3);
    DistributedDataParallel ddp(net, world);
    std::vector<at::Tensor> seen;
    ddp.register_comm_hook([&](GradBucket& bucket) {
      for (const auto& gradient : bucket.gradients()) {
        seen.push_back(gradient.clone());
      }
      return TensorFuture(bucket.buffer());
    });
    net->weight.set_data(net->weight.t().contiguous().t());
    ddp(input_of(world.rank())).square().sum().backward();
    EXPECT_TRUE(seen[0].equal(net->weight.grad()));
    EXPECT_TRUE(seen[1].equal(net->bias.grad()));
  });
}

TEST(CommHook, IsRegisteredOnceBeforeTrainingForDenseGradients) {
  const auto world = init_process_group();
  torch::nn::Linear net(4, 2);
  DistributedDataParallel ddp(net, world);
  EXPECT_THAT([&] { ddp.register_comm_hook({}); },
              ThrowsMessage<UsageError>(HasSubstr("the hook is empty")));
  ddp.register_comm_hook(noop_hook());
  EXPECT_THAT([&] { ddp.register_comm_hook(noop_hook()); },
              ThrowsMessage<UsageError>(HasSubstr("there is a hook already")));

  torch::nn::Linear second(4, 2);
  DistributedDataParallel begun(second, world);
  begun(input_of(0)).sum().backward();
  EXPECT_THAT([&] { begun.register_comm_hook(noop_hook()); },
              ThrowsMessage<UsageError>(HasSubstr("training has begun")));

  torch::nn::Embedding words(torch::nn::EmbeddingOptions(5, 3).sparse(true));
  DistributedDataParallel sparse(words, world);
  EXPECT_THAT([&] { sparse.register_comm_hook(noop_hook()); },
              ThrowsMessage<UsageError>(HasSubstr("'weight' is sparse")));
}

TEST(CommHook, AnErrorInAHookIsAnErrorOfBackward) {
  const auto world = init_process_group();
  torch::nn::Linear net(4, 2);
  DistributedDataParallel ddp(net, world);
  ddp.register_comm_hook(
      [](GradBucket&) -> TensorFuture { throw UsageError("no, says the hook"); });
  EXPECT_THAT([&] { ddp(input_of(0)).sum().backward(); },
              ThrowsMessage<UsageError>(HasSubstr("no, says the hook")));
}

}  // namespace
}  // namespace lockstep
