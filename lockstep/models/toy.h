// The ToyModel of PyTorch's DistributedDataParallel tutorial: two linear layers, net1 and net2.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>

namespace lockstep::models {

struct ToyOptions {
  std::int64_t in_features = 10;
  std::int64_t num_classes = 5;
};

class Toy : public torch::nn::Cloneable<Toy> {
 public:
  // Draws from the global generator. Throws UsageError if a size is not positive.
  explicit Toy(const ToyOptions& options);

  at::Tensor forward(const at::Tensor& input);  // Takes [N, in_features].

  void reset() override;

 private:
  ToyOptions options_;
  torch::nn::Linear net1_{nullptr};
  torch::nn::Linear net2_{nullptr};
};

std::shared_ptr<Toy> toy(const ToyOptions& options = {});

}  // namespace lockstep::models
