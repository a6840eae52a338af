// One training step of the tutorials' toy model, its gradients averaged over the ranks.
//
//   lockstep run --nproc-per-node 2 build/bin/examples/toy_step
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdio>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/parallel/distributed_data_parallel.h"

int main() try {
  auto world = lockstep::init_process_group();
  torch::nn::Sequential model(torch::nn::Linear(10, 10), torch::nn::ReLU(),
                              torch::nn::Linear(10, 5));
  lockstep::DistributedDataParallel ddp(model, world);
  torch::optim::SGD optimizer(ddp.parameters(), torch::optim::SGDOptions(0.001));

  auto loss = torch::nn::functional::mse_loss(ddp(torch::randn({20, 10})), torch::randn({20, 5}));
  loss.backward();
  optimizer.step();
  std::printf("rank %d of %d: loss %.4f, one step taken\n", world.rank(), world.size(),
              loss.item<double>());
} catch (const lockstep::Error& error) {
  std::fprintf(stderr, "toy_step: %s\n", error.what());
  return 1;
}
