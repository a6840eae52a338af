// PyTorch's "basic use case" of DistributedDataParallel: a toy model, some steps, two ranks.
//
//   build/bin/examples/toy_basic [RANKS]                            # starts its own ranks
//   lockstep run --nproc-per-node 2 build/bin/examples/toy_basic    # is one of the launcher's
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdio>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace {

void demo_basic() {
  auto world = lockstep::init_process_group();
  const auto device = world.device();
  torch::manual_seed(static_cast<std::uint64_t>(world.rank()));  // Each rank has other data.
  torch::nn::Sequential model(torch::nn::Linear(10, 10), torch::nn::ReLU(),
                              torch::nn::Linear(10, 5));
  model->to(device);
  lockstep::DistributedDataParallel ddp(model, world);  // All ranks take rank 0's weights.
  torch::optim::SGD optimizer(ddp.parameters(), torch::optim::SGDOptions(0.05));

  const auto inputs = torch::randn({20, 10}, device);
  const auto labels = torch::randn({20, 5}, device);
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    auto loss = torch::nn::functional::mse_loss(ddp(inputs), labels);
    loss.backward();  // Gradients are averaged over the ranks while this runs.
    optimizer.step();
    if (step % 3 == 0) {
      std::printf("rank %d of %d: step %d, loss %.4f\n", world.rank(), world.size(), step,
                  loss.item<double>());
    }
  }
  double sum = 0;
  for (const auto& parameter : ddp.parameters()) {
    sum += parameter.detach().sum().item<double>();
  }
  std::printf("rank %d of %d: the weights' sum is %.17g\n", world.rank(), world.size(), sum);
}

}  // namespace

int main(int argc, char** argv) try {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  if (ranks < 1) {
    throw lockstep::UsageError("expected a number of ranks: toy_basic [RANKS]");
  }
  if (std::getenv("RANK") != nullptr) {
    demo_basic();
  } else {
    lockstep::spawn(ranks, [](int) { demo_basic(); });
  }
} catch (const lockstep::Error& error) {
  std::fprintf(stderr, "toy_basic: %s\n", error.what());
  return 1;
}
