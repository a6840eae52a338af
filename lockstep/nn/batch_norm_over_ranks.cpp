#include "lockstep/nn/batch_norm_over_ranks.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm_backward_elemt.h>
#include <ATen/ops/batch_norm_backward_reduce.h>
#include <ATen/ops/batch_norm_elemt.h>
#include <ATen/ops/batch_norm_gather_stats_with_counts.h>
#include <ATen/ops/batch_norm_stats.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/device/graph.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Half precision is computed in float, as LibTorch's own batch normalization does.
at::ScalarType computed_in(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor converted(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.defined() ? tensor.to(type) : tensor;
}

// [C] as it is broadcast over an input of [N, C, ...].
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = -1;
  return values.view(shape);
}

[[noreturn]] void reject_single_value() {
  throw UsageError(
      "batch normalization in training: all ranks together have one value per channel, expected "
      "more; a variance needs two, so use larger batches or eval()");
}

// The kernels of the GPU want one of these layouts.
at::Tensor dense(const at::Tensor& tensor) {
  const bool channels_last = tensor.is_contiguous(at::MemoryFormat::ChannelsLast) ||
                             tensor.is_contiguous(at::MemoryFormat::ChannelsLast3d);
  return channels_last ? tensor : tensor.contiguous();
}

struct Statistics {
  at::Tensor mean;    // Undefined if all batches are empty.
  at::Tensor invstd;  // 1 / sqrt(variance + eps).
  at::Tensor counts;  // Of values per channel: on the GPU, of each rank; on the CPU, the total.
};

namespace cpu {

struct Moments {
  at::Tensor mean;
  at::Tensor var;  // Of the values themselves: divided by their number.
  double count = 0;
};

// As if one rank had all values. Rows of `all`: means, variances, count.
Moments combine(const at::Tensor& all) {
  const auto channels = (all.size(1) - 1) / 2;
  const auto counts = all.narrow(1, 2 * channels, 1);
  const auto means = all.narrow(1, 0, channels);
  const double count = counts.sum().item<double>();
  const auto mean = (means * counts).sum(0) / count;
  const auto squares = all.narrow(1, channels, channels) + (means - mean).square();
  return {.mean = mean, .var = (squares * counts).sum(0) / count, .count = count};
}

Moments moments(const at::Tensor& input, const RankExchange& ranks) {
  const auto channels = input.size(1);
  auto own = at::zeros({2 * channels + 1}, at::kDouble);
  if (input.numel() > 0) {
    const auto [mean, var] = at::batch_norm_update_stats(input, {}, {}, /*momentum=*/0);
    own.narrow(0, 0, channels).copy_(mean);
    own.narrow(0, channels, channels).copy_(var);
    const std::int64_t count = input.numel() / channels;
    own[-1] = static_cast<double>(count);
  }
  return combine(ranks.gather(own));
}

void update(const BatchNormOverRanks& arguments, const Moments& all) {
  const double momentum = arguments.momentum;
  const auto move = [&](const at::Tensor& running, const at::Tensor& value) {
    if (running.defined()) {
      running.mul_(1 - momentum).add_(value.to(running.scalar_type()), momentum);
    }
  };
  move(arguments.running_mean, all.mean);
  move(arguments.running_var, all.var * (all.count / (all.count - 1)));
}

Statistics forward(at::Tensor& output, const at::Tensor& input,
                   const BatchNormOverRanks& arguments) {
  const auto type = computed_in(input);
  const auto values = input.to(type);
  const auto all = moments(values, *arguments.ranks);
  if (all.count == 1) {
    reject_single_value();
  }
  if (all.count == 0) {
    output = at::empty_like(input);
    return {};
  }
  update(arguments, all);
  if (input.numel() > 0) {
    output = std::get<0>(at::native_batch_norm(values, converted(arguments.weight, type),
                                               converted(arguments.bias, type), all.mean.to(type),
                                               all.var.to(type),
                                               /*training=*/false, /*momentum=*/0, arguments.eps))
                 .to(input.scalar_type());
  } else {
    output = at::empty_like(input);
  }
  return {.mean = all.mean.to(type),
          .invstd = (all.var + arguments.eps).rsqrt().to(type),
          .counts = at::full({}, all.count, at::kDouble)};
}

// Gradients of the input, if it needs one, of weight and of bias.
variable_list backward(const at::Tensor& gradient, const at::Tensor& input,
                       const at::Tensor& weight, const Statistics& all,
                       const RankExchangePointer& ranks) {
  const auto type = all.mean.scalar_type();
  const auto channels = input.size(1);
  const auto values = input.to(type);
  const auto dy = gradient.to(type);
  auto sum_dy = at::zeros({channels}, type);
  auto sum_dy_normalized = at::zeros({channels}, type);
  if (input.numel() > 0) {
    std::tie(std::ignore, sum_dy_normalized, sum_dy) =
        at::native_batch_norm_backward(dy, values, {}, {}, {}, all.mean, all.invstd, /*train=*/true,
                                       /*eps=*/0, {false, true, true});
  }
  if (!ranks) {
    return {at::Tensor(), sum_dy_normalized, sum_dy};
  }
  const auto sums = at::cat({sum_dy, sum_dy_normalized}).to(at::kDouble);
  ranks->sum(sums);
  const auto means = (sums / all.counts).to(type);
  const auto mean_dy = means.narrow(0, 0, channels);
  const auto slope = means.narrow(0, channels, channels) * all.invstd;
  const auto factor = weight.defined() ? all.invstd * weight.to(type) : all.invstd;
  auto result = (values - by_channel(all.mean, input)).mul_(by_channel(slope, input));
  result = dy - result;
  result.sub_(by_channel(mean_dy, input)).mul_(by_channel(factor, input));
  return {result.to(input.scalar_type()), sum_dy_normalized, sum_dy};
}

}  // namespace cpu

// After torch/nn/modules/_functions.py, so that the bits are the same.
namespace gpu {

at::Tensor own_statistics(const at::Tensor& input, double eps) {
  const auto channels = input.size(1);
  if (input.numel() == 0) {
    return at::zeros({2 * channels + 1}, input.options().dtype(computed_in(input)));
  }
  const auto [mean, invstd] = at::batch_norm_stats(input, eps);
  const auto count = at::full({1}, input.numel() / channels, mean.options());
  return at::cat({mean, invstd, count});
}

Statistics forward(at::Tensor& output, const at::Tensor& input,
                   const BatchNormOverRanks& arguments) {
  const auto channels = input.size(1);
  auto all = arguments.ranks->gather(own_statistics(input, arguments.eps));
  if (!device::Graph::is_stream_recorded()) {  // It would wait for the GPU.
    all = all.index({all.select(1, 2 * channels) >= 1});
    if (all.size(0) == 0) {
      output = at::empty_like(input);
      return {};
    }
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

variable_list backward(const at::Tensor& gradient, const at::Tensor& input,
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

}  // namespace gpu

// An argument that is a tensor must be defined.
std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

struct Normalize : torch::autograd::Function<Normalize> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& any,
                            const std::optional<at::Tensor>& /*weight*/,
                            const std::optional<at::Tensor>& /*bias*/,
                            const BatchNormOverRanks& arguments) {
    const auto input = any.is_cuda() ? dense(any) : any;
    at::Tensor output;
    const auto all = any.is_cuda() ? gpu::forward(output, input, arguments)
                                   : cpu::forward(output, input, arguments);
    context->save_for_backward({input, arguments.weight, all.mean, all.invstd, all.counts});
    context->saved_data["ranks"] = c10::IValue::make_capsule(arguments.ranks);
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      throw UsageError(
          "batch normalization over ranks cannot be differentiated twice; call backward without "
          "create_graph");
    }
    const auto saved = context->get_saved_variables();
    const auto& input = saved[0];
    const auto& weight = saved[1];
    const Statistics all{.mean = saved[2], .invstd = saved[3], .counts = saved[4]};
    if (!all.mean.defined()) {  // All batches are empty.
      return with_types({at::zeros_like(input), zeros_of(weight), zeros_of(weight)}, weight);
    }
    RankExchangePointer ranks;
    if (context->needs_input_grad(0)) {
      ranks = c10::static_intrusive_pointer_cast<RankExchange>(
          context->saved_data["ranks"].toCapsule());
    }
    const auto compute = input.is_cuda() ? gpu::backward : cpu::backward;
    return with_types(compute(gradients.front(), input, weight, all, ranks), weight);
  }

 private:
  static at::Tensor zeros_of(const at::Tensor& weight) {
    return weight.defined() ? at::zeros_like(weight) : weight;
  }
  // As autograd wants them: one for each argument of forward, of its type.
  static variable_list with_types(variable_list gradients, const at::Tensor& weight) {
    for (std::size_t i = 1; i < 3; ++i) {
      gradients[i] =
          weight.defined() ? converted(gradients[i], weight.scalar_type()) : at::Tensor();
    }
    gradients.emplace_back();
    return gradients;
  }
};

}  // namespace

at::Tensor batch_norm_over_ranks(const at::Tensor& input, const BatchNormOverRanks& arguments) {
  if (input.dim() < 2 || input.size(1) == 0) {
    throw UsageError("batch normalization over ranks: the input is " + std::to_string(input.dim()) +
                     "-dimensional or has no channel, expected [N, C, ...]");
  }
  return Normalize::apply(input, if_defined(arguments.weight), if_defined(arguments.bias),
                          arguments);
}

}  // namespace lockstep::nn
