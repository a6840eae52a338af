// PyTorch's "save and load checkpoints" of DistributedDataParallel: rank 0 saves, all ranks load.
//
//   build/bin/examples/toy_checkpoint FOLDER [RANKS]    # starts its own ranks
//   lockstep run --nproc-per-node 2 build/bin/examples/toy_checkpoint FOLDER
//
// Python reads the file, too: torch.load("FOLDER/last.pt", weights_only=True).
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/checkpoint/checkpoint_writer.h"
#include "lockstep/train/optim/sgd.h"

namespace {

torch::nn::Sequential make_model() {
  return torch::nn::Sequential(torch::nn::Linear(10, 10), torch::nn::ReLU(),
                               torch::nn::Linear(10, 5));
}

using Ddp = lockstep::DistributedDataParallel<torch::nn::SequentialImpl>;

void train(Ddp& ddp, lockstep::optim::Optimizer& optimizer, at::Device device, int steps) {
  for (int step = 0; step < steps; ++step) {
    const auto inputs = torch::randn({20, 10}, device);
    optimizer.zero_grad();
    torch::nn::functional::mse_loss(ddp(inputs), torch::zeros({20, 5}, device)).backward();
    optimizer.step();
  }
}

double sum_of(const lockstep::StateDict& state) {
  double sum = 0;
  for (const auto& item : state) {
    sum += item.second.sum().item<double>();
  }
  return sum;
}

void demo_checkpoint(const std::string& folder) {
  auto world = lockstep::init_process_group();
  const auto device = world.device();
  torch::manual_seed(static_cast<std::uint64_t>(world.rank()));
  auto model = make_model();
  model->to(device);
  Ddp ddp(model, world);
  lockstep::optim::SGD optimizer(ddp.parameters(), {.lr = 0.05, .momentum = 0.9});
  train(ddp, optimizer, device, 5);

  if (world.rank() == 0) {  // All ranks have the same weights: one saves.
    lockstep::CheckpointWriter writer(folder);
    writer.save({.model = lockstep::state_dict(*model), .optimizer = optimizer.state_dict()});
    writer.wait();
  }
  world.barrier();  // No rank reads before rank 0 has written.

  // What rank 0 saved from its device goes to the device of this rank.
  const auto saved = lockstep::load_checkpoint(folder, device).checkpoint;
  auto restored = make_model();
  restored->to(device);
  lockstep::load_state_dict(*restored, saved.model);
  Ddp again(restored, world);
  lockstep::optim::SGD resumed(again.parameters(), {.lr = 0.05, .momentum = 0.9});
  resumed.load_state_dict(saved.optimizer.value());

  const auto rng = lockstep::rng_state();  // Both go on with the same data.
  train(ddp, optimizer, device, 5);
  lockstep::set_rng_state(rng);
  train(again, resumed, device, 5);
  std::printf("rank %d of %d: went on to %.17g, resumed to %.17g\n", world.rank(), world.size(),
              sum_of(lockstep::state_dict(*model)), sum_of(lockstep::state_dict(*restored)));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: toy_checkpoint FOLDER [RANKS]\n");
    return 2;
  }
  const std::string folder = argv[1];
  if (std::getenv("RANK") != nullptr) {
    demo_checkpoint(folder);
  } else {
    lockstep::spawn(argc > 2 ? std::atoi(argv[2]) : 2, [&](int) { demo_checkpoint(folder); });
  }
} catch (const lockstep::Error& error) {
  std::fprintf(stderr, "toy_checkpoint: %s\n", error.what());
  return 1;
}
