// Replicas on a GPU: two on the same one, which needs no second GPU.
#include <ATen/ops/allclose.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "lockstep/parallel/data_parallel.h"

namespace lockstep {
namespace {

torch::nn::Sequential make_net() {
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(64, 256), torch::nn::Tanh(),
                            torch::nn::Linear(256, 8));
  net->to(at::kCUDA);
  return net;
}

TEST(DataParallelOnGpu, TwoReplicasTrainAsTheModuleAloneWould) {
  for (const bool inputs_on_gpu : {true, false}) {
    auto alone = make_net();
    auto net = make_net();
    DataParallel parallel(net, {.device_ids = {{at::kCUDA, 0}, {at::kCUDA, 0}}});
    torch::optim::SGD for_alone(alone->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    for (int step = 0; step < 5; ++step) {
      const auto data = at::rand({33, 64}, at::kCUDA);
      const auto target = at::rand({33, 8}, at::kCUDA);
      for_alone.zero_grad();
      optimizer.zero_grad();
      const auto output = parallel(inputs_on_gpu ? data : data.cpu());
      EXPECT_EQ(output.device(), at::Device("cuda:0"));
      at::mse_loss(output, target).backward();
      at::mse_loss(alone->forward(data), target).backward();
      optimizer.step();
      for_alone.step();
    }
    for (const auto& item : alone->named_parameters()) {
      EXPECT_TRUE(
          at::allclose(net->named_parameters()[item.key()], item.value(), /*rtol=*/1e-4, 1e-5))
          << item.key();
    }
  }
}

TEST(DataParallelOnGpu, WithoutDevicesTakesAllGpus) {
  auto net = make_net();
  DataParallel parallel(net);
  ASSERT_FALSE(parallel.device_ids().empty());
  EXPECT_EQ(parallel.device_ids().front(), at::Device("cuda:0"));
  EXPECT_TRUE(
      at::allclose(parallel(at::ones({4, 64})), net->forward(at::ones({4, 64}, at::kCUDA))));
}

}  // namespace
}  // namespace lockstep
