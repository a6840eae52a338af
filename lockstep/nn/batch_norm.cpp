#include "lockstep/nn/batch_norm.h"

#include <c10/core/ScalarType.h>
#include <c10/util/StringUtil.h>

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
                                        std::optional<std::int64_t> most, const char* layer) const {
  if (input.defined() && input.dim() >= least && input.dim() <= most.value_or(input.dim())) {
    return;
  }
  const auto number = std::to_string(least);
  const auto expected = (!most ? "at least " + number
                               : number + (*most == least ? "" : " to " + std::to_string(*most))) +
                        " dimensions";
  const auto place = ranks() ? " on rank " + std::to_string(ranks()->rank()) + " of " +
                                   std::to_string(ranks()->size())
                             : "";
  throw UsageError(layer + place + ": the input " +
                   (input.defined() ? "has " + std::to_string(input.dim()) + " dimensions"
                                    : std::string("is undefined")) +
                   ", expected " + expected);
}

void require_input_of(const BatchNormTensors& tensors, const at::Tensor& input,
                      const RankExchange& ranks) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError("batch normalization over ranks, on rank " + std::to_string(ranks.rank()) +
                     " of " + std::to_string(ranks.size()) + ": " + why);
  };
  if (!at::isFloatingType(input.scalar_type())) {
    refuse(std::string("the input is of ") + c10::toString(input.scalar_type()) +
           ", expected floating point; convert it, with input.to(at::kFloat) say");
  }
  const auto& like = tensors.weight.defined() ? tensors.weight : tensors.running_mean;
  if (like.defined() && input.size(1) != like.numel()) {
    refuse("the input " + c10::str(input.sizes()) + " has " + std::to_string(input.size(1)) +
           " channels (dimension 1), expected the layer's num_features, " +
           std::to_string(like.numel()));
  }
}

bool has_own_kernels(const at::Tensor& input, const BatchNormTensors& tensors) {
  return channels_last::takes(input, arguments_of(tensors));
}

at::Tensor normalize_in_training(const at::Tensor& input, const BatchNormTensors& tensors,
                                 const torch::nn::BatchNormOptions& options,
                                 const RankExchangePointer& ranks) {
  if (ranks) {
    require_input_of(tensors, input, *ranks);
  }
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
