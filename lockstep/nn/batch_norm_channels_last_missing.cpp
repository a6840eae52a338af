#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm_channels_last_gpu.h"

namespace lockstep::nn::channels_last {

bool takes(const at::Tensor& /*input*/, const Arguments& /*arguments*/) { return false; }

at::Tensor batch_norm(const at::Tensor& /*input*/, const Arguments& /*arguments*/) {
  throw UsageError(
      "batch normalization in channels_last: this build has no kernels of its own; ask takes(), or "
      "build where nvcc is found");
}

}  // namespace lockstep::nn::channels_last
