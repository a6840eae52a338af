#include "lockstep/nn/batch_norm.h"

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm_channels_last_gpu.h"

namespace lockstep::nn {
namespace {

channels_last::Arguments arguments_of(const BatchNormTensors& tensors) {
  return {.weight = tensors.weight,
          .bias = tensors.bias,
          .running_mean = tensors.running_mean,
          .running_var = tensors.running_var};
}

}  // namespace

void Synchronizable::require_dimensions(const at::Tensor& input, std::int64_t least,
                                        std::int64_t most, const char* layer) {
  if (input.dim() >= least && input.dim() <= most) {
    return;
  }
  const auto expected =
      std::to_string(least) + (most == least ? "" : " to " + std::to_string(most)) + " dimensions";
  throw UsageError(std::string(layer) + ": the input has " + std::to_string(input.dim()) +
                   " dimensions, expected " + expected);
}

bool has_own_kernels(const at::Tensor& input, const BatchNormTensors& tensors) {
  return channels_last::takes(input, arguments_of(tensors));
}

at::Tensor normalize_in_training(const at::Tensor& input, const BatchNormTensors& tensors,
                                 const torch::nn::BatchNormOptions& options,
                                 const RankExchangePointer& ranks) {
  double momentum = options.momentum().value_or(0);
  if (options.track_running_stats() && tensors.num_batches_tracked.defined()) {
    tensors.num_batches_tracked.add_(1);
    if (!options.momentum()) {  // The average of all batches.
      momentum = 1.0 / tensors.num_batches_tracked.item<double>();
    }
  }
  if (!ranks || ranks->size() < 2) {
    if (auto arguments = arguments_of(tensors); channels_last::takes(input, arguments)) {
      arguments.momentum = momentum;
      arguments.eps = options.eps();
      return channels_last::batch_norm(input, arguments);
    }
    return torch::nn::functional::detail::batch_norm(input, tensors.running_mean,
                                                     tensors.running_var, tensors.weight,
                                                     tensors.bias, true, momentum, options.eps());
  }
  return batch_norm_over_ranks(input, {.weight = tensors.weight,
                                       .bias = tensors.bias,
                                       .running_mean = tensors.running_mean,
                                       .running_var = tensors.running_var,
                                       .momentum = momentum,
                                       .eps = options.eps(),
                                       .ranks = ranks});
}

void BatchNorm1dImpl::_check_input_dim(const at::Tensor& input) {
  require_dimensions(input, 2, 3, "BatchNorm1d");
}
void BatchNorm2dImpl::_check_input_dim(const at::Tensor& input) {
  require_dimensions(input, 4, 4, "BatchNorm2d");
}
void BatchNorm3dImpl::_check_input_dim(const at::Tensor& input) {
  require_dimensions(input, 5, 5, "BatchNorm3d");
}

}  // namespace lockstep::nn
