// Max pooling with the results of torch::nn::MaxPool2d, and faster kernels for the common case.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/options/pooling.h>
#include <torch/nn/pimpl.h>

#include <iosfwd>

namespace lockstep::nn {

// As torch::nn::MaxPool2d, bit for bit, values and gradients. Windows of 2 x 2 side by side, over
// float32 images on the CPU, have kernels of lockstep's own, which run in one thread; everything
// else goes to PyTorch's.
class MaxPool2dImpl : public torch::nn::Cloneable<MaxPool2dImpl> {
 public:
  explicit MaxPool2dImpl(torch::ExpandingArray<2> kernel_size)
      : MaxPool2dImpl(torch::nn::MaxPool2dOptions(kernel_size)) {}
  explicit MaxPool2dImpl(const torch::nn::MaxPool2dOptions& chosen) : options(chosen) {}

  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  at::Tensor forward(const at::Tensor& input);

  torch::nn::MaxPool2dOptions options;  // NOLINT(misc-non-private-member-variables-in-classes)
};
TORCH_MODULE(MaxPool2d);

// Whether MaxPool2d has kernels of its own for this.
bool has_own_kernels(const at::Tensor& input, const torch::nn::MaxPool2dOptions& options);

}  // namespace lockstep::nn
