#include "lockstep/models/toy.h"

#include <ATen/ops/relu.h>

#include "lockstep/models/require.h"

namespace lockstep::models {

Toy::Toy(const ToyOptions& options) : Cloneable("ToyModel"), options_(options) {
  require_positive("toy", "in_features", options.in_features);
  require_positive("toy", "num_classes", options.num_classes);
  Toy::reset();
}

void Toy::reset() {
  constexpr std::int64_t kHidden = 10;
  net1_ = register_module("net1", torch::nn::Linear(options_.in_features, kHidden));
  net2_ = register_module("net2", torch::nn::Linear(kHidden, options_.num_classes));
}

at::Tensor Toy::forward(const at::Tensor& input) {
  return net2_->forward(at::relu(net1_->forward(input)));
}

std::shared_ptr<Toy> toy(const ToyOptions& options) { return std::make_shared<Toy>(options); }

}  // namespace lockstep::models
