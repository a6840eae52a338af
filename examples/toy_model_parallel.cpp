// A model that spans two devices in each rank, and two ranks of it: model parallelism inside a
// process, data parallelism across. No device_ids: forward moves its tensors itself.
//
//   build/bin/examples/toy_model_parallel [RANKS]
//
// With GPUs each rank takes the CPU and its GPU; without, both halves are on the CPU.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdio>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace {

struct ToyModel : torch::nn::Module {
  ToyModel(at::Device first, at::Device second) : first_device(first), second_device(second) {
    register_module("net1", net1)->to(first);
    register_module("net2", net2)->to(second);
  }
  at::Tensor forward(const at::Tensor& input) {
    const auto hidden = torch::relu(net1->forward(input.to(first_device)));
    return net2->forward(hidden.to(second_device));
  }

  at::Device first_device;
  at::Device second_device;
  torch::nn::Linear net1{10, 10};
  torch::nn::Linear net2{10, 5};
};

void demo_model_parallel() {
  auto world = lockstep::init_process_group();
  torch::manual_seed(static_cast<std::uint64_t>(world.rank()));
  auto model = std::make_shared<ToyModel>(at::kCPU, world.device());
  lockstep::DistributedDataParallel ddp(model, world);
  torch::optim::SGD optimizer(ddp.parameters(), torch::optim::SGDOptions(0.05));

  const auto inputs = torch::randn({20, 10});
  const auto labels = torch::randn({20, 5}).to(model->second_device);
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    auto loss = torch::nn::functional::mse_loss(ddp(inputs), labels);
    loss.backward();
    optimizer.step();
    if (step % 3 == 0) {
      std::printf("rank %d of %d on %s and %s: step %d, loss %.4f\n", world.rank(), world.size(),
                  model->first_device.str().c_str(), model->second_device.str().c_str(), step,
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
  if (std::getenv("RANK") != nullptr) {
    demo_model_parallel();
  } else {
    lockstep::spawn(argc > 1 ? std::atoi(argv[1]) : 2, [](int) { demo_model_parallel(); });
  }
} catch (const lockstep::Error& error) {
  std::fprintf(stderr, "toy_model_parallel: %s\n", error.what());
  return 1;
}
