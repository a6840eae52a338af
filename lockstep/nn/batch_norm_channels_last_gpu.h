// Batch normalization in training with kernels of our own, where they can take the tensors.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::nn::channels_last {

struct Arguments {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;  // Updated; undefined, as running_var, if there is none.
  at::Tensor running_var;
  double momentum = 0.1;
  double eps = 1e-5;
};

// Whether the kernels take these tensors: a 4-dimensional batch on a GPU in half precision and
// channels_last, a multiple of 8 channels, two values of each or more, and float32 for the rest.
// Never in a build without nvcc, nor with LOCKSTEP_BATCH_NORM=torch in the environment. Throws
// UsageError if that variable has another value.
bool takes(const at::Tensor& input, const Arguments& arguments);

// Like at::batch_norm() in training; takes() must be true. The host does not wait for the GPU. A
// backward with create_graph uses LibTorch's kernels, which can be differentiated again.
at::Tensor batch_norm(const at::Tensor& input, const Arguments& arguments);

}  // namespace lockstep::nn::channels_last
