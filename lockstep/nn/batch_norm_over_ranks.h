// Batch normalization over the batches of all ranks, as if one process had them together.
//
// On the GPU it is computed as torch.nn.SyncBatchNorm does, with the same kernels. On the CPU,
// where PyTorch refuses it, means and variances travel in double.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/nn/rank_exchange.h"

namespace lockstep::nn {

struct BatchNormOverRanks {
  at::Tensor weight;        // Undefined: 1.
  at::Tensor bias;          // Undefined: 0.
  at::Tensor running_mean;  // Updated, if defined.
  at::Tensor running_var;
  double momentum = 0.1;
  double eps = 1e-5;
  RankExchangePointer ranks;
};

// A collective of all ranks, as is its backward if the input requires a gradient. Batches may
// differ in size; an empty one takes part and counts nothing. Gradients of weight and bias are this
// rank's part: their sum over the ranks is that of the whole batch. Throws UsageError on all ranks
// if they have one value per channel together. Running statistics stay as they are if all are
// empty. backward(create_graph=true) is a UsageError.
at::Tensor batch_norm_over_ranks(const at::Tensor& input, const BatchNormOverRanks& arguments);

}  // namespace lockstep::nn
