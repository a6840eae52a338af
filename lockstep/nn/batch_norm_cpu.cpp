#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/zeros.h>

#include "lockstep/nn/batch_norm_kernels.h"

namespace lockstep::nn::cpu {
namespace {

// [C] as it is broadcast over an input of [N, C, ...].
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = -1;
  return values.view(shape);
}

struct Moments {
  at::Tensor mean;
  at::Tensor var;  // The biased one: divided by the number of values.
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

}  // namespace

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

std::vector<at::Tensor> backward(const at::Tensor& gradient, const at::Tensor& input,
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

}  // namespace lockstep::nn::cpu
