// After torch/nn/modules/_functions.py, so that the bits are the same.
#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm_backward_elemt.h>
#include <ATen/ops/batch_norm_backward_reduce.h>
#include <ATen/ops/batch_norm_elemt.h>
#include <ATen/ops/batch_norm_gather_stats_with_counts.h>
#include <ATen/ops/batch_norm_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "lockstep/device/graph.h"
#include "lockstep/nn/batch_norm_kernels.h"

namespace lockstep::nn::gpu {
namespace {

// The count of an empty batch: too small to change a sum, and not 0, by which the kernel would
// divide.
double almost_none(const BatchNormOverRanks& arguments) {
  const auto& running = arguments.running_mean;
  constexpr double kLeastHalf = 6e-8;
  return running.defined() && running.scalar_type() == at::kHalf ? kLeastHalf : 1e-30;
}

// Means, 1 / deviations, count.
at::Tensor own_statistics(const at::Tensor& input, const BatchNormOverRanks& arguments) {
  const auto channels = input.size(1);
  if (input.numel() == 0) {
    const auto options = input.options().dtype(computed_in(input));
    return at::cat({at::zeros({channels}, options), at::ones({channels}, options),
                    at::full({1}, almost_none(arguments), options)});
  }
  const auto [mean, invstd] = at::batch_norm_stats(input, arguments.eps);
  const auto count = at::full({1}, input.numel() / channels, mean.options());
  return at::cat({mean, invstd, count});
}

// Whether no rank has a value. Only a rank with fewer than two of its own has to ask, and then it
// waits for the GPU; all ranks ask if the answer is yes, or if they are refused.
bool are_all_empty(const at::Tensor& all, const at::Tensor& input) {
  if (input.numel() / input.size(1) > 1 || device::Graph::is_stream_recorded()) {
    return false;
  }
  const auto count = std::llround(all.select(1, all.size(1) - 1).sum().item<double>());
  if (count == 1) {
    reject_single_value();
  }
  return count == 0;
}

}  // namespace

at::Tensor dense(const at::Tensor& tensor) {
  const bool channels_last = tensor.is_contiguous(at::MemoryFormat::ChannelsLast) ||
                             tensor.is_contiguous(at::MemoryFormat::ChannelsLast3d);
  return channels_last ? tensor : tensor.contiguous();
}

Statistics forward(at::Tensor& output, const at::Tensor& input,
                   const BatchNormOverRanks& arguments) {
  const auto channels = input.size(1);
  const auto all = arguments.ranks->gather(own_statistics(input, arguments));
  if (are_all_empty(all, input)) {
    output = at::empty_like(input);
    return {};
  }
  auto counts = all.select(1, 2 * channels).contiguous();
  const auto whole_counts = counts.to(at::kInt);  // Half has no numbers above 65,504.
  if (arguments.running_mean.defined()) {
    counts = counts.to(arguments.running_mean.scalar_type());
  }
  const auto [mean, invstd] = at::batch_norm_gather_stats_with_counts(
      input, all.narrow(1, 0, channels), all.narrow(1, channels, channels), arguments.running_mean,
      arguments.running_var, arguments.momentum, arguments.eps, counts);
  output = input.numel() > 0 ? at::batch_norm_elemt(input, arguments.weight, arguments.bias, mean,
                                                    invstd, arguments.eps)
                             : at::empty_like(input);
  return {.mean = mean, .invstd = invstd, .counts = whole_counts};
}

std::vector<at::Tensor> backward(const at::Tensor& gradient, const at::Tensor& input,
                                 const at::Tensor& weight, const Statistics& all,
                                 const RankExchangePointer& ranks) {
  const auto channels = input.size(1);
  if (input.numel() == 0) {
    const auto zeros = at::zeros({2 * channels}, all.mean.options());
    if (ranks) {
      ranks->sum(zeros);
    }
    const auto nothing = at::zeros({channels}, all.mean.options());
    return {at::zeros_like(input), nothing, nothing};
  }
  const auto dy = dense(gradient);
  const auto [sum_dy, sum_dy_xmu, weight_gradient, bias_gradient] = at::batch_norm_backward_reduce(
      dy, input, all.mean, all.invstd, weight, /*input_g=*/true, /*weight_g=*/weight.defined(),
      /*bias_g=*/weight.defined());
  if (!ranks) {
    return {at::Tensor(), weight_gradient, bias_gradient};
  }
  const auto sums = at::cat({sum_dy, sum_dy_xmu});
  ranks->sum(sums);
  return {at::batch_norm_backward_elemt(
              dy, input, all.mean, all.invstd, converted(weight, all.mean.scalar_type()),
              sums.narrow(0, 0, channels), sums.narrow(0, channels, channels), all.counts),
          weight_gradient, bias_gradient};
}

}  // namespace lockstep::nn::gpu
