#include "lockstep/parallel/distributed_data_parallel.h"

#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::ThrowsMessage;

at::Tensor input_of(int rank, std::int64_t features = 4) {
  return at::arange(8 * features, at::kFloat).view({8, features}).div(10).sin() +
         static_cast<double>(rank);
}

TEST(DistributedDataParallel, StartsAllRanksWithRank0sParametersAndBuffers) {
  run_ranks(2, [](Group& world) {
    torch::manual_seed(static_cast<std::uint64_t>(world.rank()));
    torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
    net->buffers()[0].fill_(world.rank() + 1);
    const DistributedDataParallel ddp(net, world);
    for (const auto& tensor : {net->parameters()[0], net->buffers()[0]}) {
      const auto first = tensor.detach().clone();
      world.broadcast(first).wait();
      EXPECT_TRUE(first.equal(tensor));
    }
    EXPECT_EQ(net->buffers()[0][0].item<float>(), 1);
  });
}

TEST(DistributedDataParallel, AveragesGradientsOverTheRanks) {
  for (const bool views : {true, false}) {
    run_ranks(2, [views](Group& world) {
      torch::manual_seed(0);
      torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::Linear(3, 2));
      torch::nn::Sequential alone(torch::nn::Linear(4, 3), torch::nn::Linear(3, 2));
      for (std::size_t i = 0; i < 4; ++i) {
        const at::NoGradGuard no_grad;
        alone->parameters()[i].copy_(net->parameters()[i]);
      }
      DistributedDataParallel ddp(net, world, {.gradient_as_bucket_view = views});
      for (int step = 0; step < 3; ++step) {
        net->zero_grad();
        ddp(input_of(world.rank())).square().mean().backward();
        alone->zero_grad();
        ((alone->forward(input_of(0)).square().mean() +
          alone->forward(input_of(1)).square().mean()) /
         2)
            .backward();
        for (std::size_t i = 0; i < 4; ++i) {
          EXPECT_TRUE(at::allclose(net->parameters()[i].grad(), alone->parameters()[i].grad()));
        }
      }
      EXPECT_EQ(ddp.stats().steps, 3);
    });
  }
}

}  // namespace
}  // namespace lockstep
