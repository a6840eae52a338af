// The two ways in which batch_norm_over_ranks.h computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm_over_ranks.h"

namespace lockstep::nn {

struct Statistics {
  at::Tensor mean;    // Undefined if all batches are empty.
  at::Tensor invstd;  // 1 / sqrt(variance + eps).
  at::Tensor counts;  // Values per channel: on the GPU, each rank's; on the CPU, the total.
};

// Half precision is computed in float, as LibTorch's own batch normalization does.
inline at::ScalarType computed_in(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

inline at::Tensor converted(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.defined() ? tensor.to(type) : tensor;
}

[[noreturn]] inline void reject_single_value() {
  throw UsageError(
      "batch normalization in training: all ranks together have one value per channel, expected "
      "more; a variance needs two, so use larger batches or eval()");
}

// forward() writes the output. backward() gives the gradients of the input, if it needs one and
// `ranks` are there, of weight and of bias.
namespace cpu {
Statistics forward(at::Tensor& output, const at::Tensor& input,
                   const BatchNormOverRanks& arguments);
std::vector<at::Tensor> backward(const at::Tensor& gradient, const at::Tensor& input,
                                 const at::Tensor& weight, const Statistics& all,
                                 const RankExchangePointer& ranks);
}  // namespace cpu

namespace gpu {
// A layout that the kernels take.
at::Tensor dense(const at::Tensor& tensor);
Statistics forward(at::Tensor& output, const at::Tensor& input,
                   const BatchNormOverRanks& arguments);
std::vector<at::Tensor> backward(const at::Tensor& gradient, const at::Tensor& input,
                                 const at::Tensor& weight, const Statistics& all,
                                 const RankExchangePointer& ranks);
}  // namespace gpu

}  // namespace lockstep::nn
