// A network of one's own, trained by the program that `lockstep train` is, with all of its flags.
//
//   build/bin/examples/own_network --model mynet --nproc 2 --epochs 3
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/train/main.h"

namespace {

// What the data needs is in the options; a function without arguments would do, too.
torch::nn::Sequential make_mynet(const lockstep::models::ModelOptions& options) {
  std::int64_t features = 1;
  for (const auto size : options.input_size) {
    features *= size;
  }
  return torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(features, 128),
                               torch::nn::ReLU(), torch::nn::Dropout(0.1),
                               torch::nn::Linear(128, options.num_classes.value()));
}

}  // namespace

int main(int argc, char** argv) {
  return lockstep::train::main(argc, argv, {{"mynet", make_mynet}});
}
