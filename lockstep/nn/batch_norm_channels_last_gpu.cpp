// Compiled where nvcc is found; batch_norm_channels_last_missing.cpp stands in elsewhere.
#include "lockstep/nn/batch_norm_channels_last_gpu.h"

#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm_channels_last.h"

namespace lockstep::nn::channels_last {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kSwitch = "LOCKSTEP_BATCH_NORM";

// Read once: a layer asks in every step.
bool is_switched_off() {
  static const bool off = [] {
    const auto value = Environment::of_this_process().get(kSwitch);
    if (value && *value != "torch") {
      throw UsageError(std::string(kSwitch) + " is '" + *value +
                       "', expected 'torch', for PyTorch's kernels, or nothing; unset it");
    }
    return value.has_value();
  }();
  return off;
}

bool is_aligned(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % kAlignment == 0;
}

bool takes_input(const at::Tensor& input) {
  const bool is_half = input.scalar_type() == at::kBFloat16 || input.scalar_type() == at::kHalf;
  return input.is_cuda() && is_half && input.dim() == 4 && input.size(1) > 0 &&
         input.size(1) % kChannelsAtOnce == 0 && input.numel() / input.size(1) > 1 &&
         input.is_contiguous(at::MemoryFormat::ChannelsLast) && is_aligned(input);
}

bool takes_vector(const at::Tensor& vector, const at::Tensor& input) {
  return vector.defined() && vector.scalar_type() == at::kFloat && vector.dim() == 1 &&
         vector.size(0) == input.size(1) && vector.is_contiguous() &&
         vector.device() == input.device();
}

Matrix matrix_of(const at::Tensor& input) {
  return {.rows = input.numel() / input.size(1),
          .channels = input.size(1),
          .element = input.scalar_type() == at::kHalf ? Element::kHalf : Element::kBFloat16};
}

// Asked once: a layer needs it in every step, and while a graph is recorded the answer could be an
// error.
Support support_of(c10::Device device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, Support> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(device.index()); found != known.end()) {
    return found->second;
  }
  const c10::cuda::CUDAGuard guard(device);
  const auto support = support_of_current_device();
  if (support.runs) {
    known.emplace(device.index(), support);
  }
  return support;
}

// The current one.
Gpu this_gpu() {
  const auto* properties = at::cuda::getCurrentDeviceProperties();
  return {
      .multiprocessors = properties->multiProcessorCount,
      .overlap_launches = support_of(c10::Device(at::kCUDA, c10::cuda::current_device())).overlaps,
      .stream = c10::cuda::getCurrentCUDAStream()};
}

float* pointer_if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr;
}

at::Tensor floats_beside(const at::Tensor& input, at::IntArrayRef sizes) {
  return at::empty(sizes, input.options().dtype(at::kFloat).memory_format(std::nullopt));
}

// In the layout of the input.
at::Tensor readable(const at::Tensor& gradient) {
  const auto dense = gradient.contiguous(at::MemoryFormat::ChannelsLast);
  return is_aligned(dense) ? dense : at::empty_like(dense).copy_(dense);
}

struct ChannelsLastBatchNorm : torch::autograd::Function<ChannelsLastBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const Arguments& arguments) {
    const c10::cuda::CUDAGuard guard(input.device());
    const auto matrix = matrix_of(input);
    const auto gpu = this_gpu();
    auto output = at::empty_like(input, input.suggest_memory_format());
    const auto statistics = floats_beside(input, {2, matrix.channels});  // Mean and invstd.
    const auto scratch = floats_beside(input, {scratch_floats(matrix, gpu)});
    auto* mean = statistics.mutable_data_ptr<float>();
    C10_CUDA_CHECK(
        channels_last::forward(matrix,
                               {.input = input.const_data_ptr(),
                                .weight = weight.const_data_ptr<float>(),
                                .bias = bias.const_data_ptr<float>(),
                                .momentum = static_cast<float>(arguments.momentum),
                                .eps = static_cast<float>(arguments.eps),
                                .running_mean = pointer_if_defined(arguments.running_mean),
                                .running_var = pointer_if_defined(arguments.running_var),
                                .output = output.mutable_data_ptr(),
                                .mean = mean,
                                .invstd = mean + matrix.channels,
                                .scratch = scratch.mutable_data_ptr<float>()},
                               gpu));
    context->save_for_backward({input, weight, statistics});
    context->saved_data["eps"] = arguments.eps;
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto& input = saved[0];
    const auto& weight = saved[1];
    const auto& statistics = saved[2];
    const std::array<bool, 3> wanted{context->needs_input_grad(0), context->needs_input_grad(1),
                                     context->needs_input_grad(2)};
    if (at::GradMode::is_enabled()) {
      auto [of_input, of_weight, of_bias] = at::native_batch_norm_backward(
          gradients.front(), input, weight, {}, {}, statistics.select(0, 0),
          statistics.select(0, 1), /*train=*/true, context->saved_data["eps"].toDouble(), wanted);
      return {of_input, of_weight, of_bias, at::Tensor()};
    }
    const c10::cuda::CUDAGuard guard(input.device());
    const auto matrix = matrix_of(input);
    const auto gpu = this_gpu();
    const auto gradient = readable(gradients.front());
    const auto of_input =
        wanted[0] ? at::empty_like(input, input.suggest_memory_format()) : at::Tensor();
    const auto of_weight = floats_beside(input, {matrix.channels});
    const auto of_bias = floats_beside(input, {matrix.channels});
    const auto scratch = floats_beside(input, {scratch_floats(matrix, gpu)});
    const auto* mean = statistics.const_data_ptr<float>();
    C10_CUDA_CHECK(channels_last::backward(
        matrix,
        {.output_gradient = gradient.const_data_ptr(),
         .input = input.const_data_ptr(),
         .weight = weight.const_data_ptr<float>(),
         .mean = mean,
         .invstd = mean + matrix.channels,
         .input_gradient = wanted[0] ? of_input.mutable_data_ptr() : nullptr,
         .weight_gradient = of_weight.mutable_data_ptr<float>(),
         .bias_gradient = of_bias.mutable_data_ptr<float>(),
         .scratch = scratch.mutable_data_ptr<float>()},
        gpu));
    return {of_input, wanted[1] ? of_weight : at::Tensor(), wanted[2] ? of_bias : at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

bool takes(const at::Tensor& input, const Arguments& arguments) {
  if (!takes_input(input) || !takes_vector(arguments.weight, input) ||
      !takes_vector(arguments.bias, input)) {
    return false;
  }
  const auto& mean = arguments.running_mean;
  const auto& var = arguments.running_var;
  const bool tracks_nothing = !mean.defined() && !var.defined();
  const bool tracks = takes_vector(mean, input) && takes_vector(var, input);
  return (tracks || tracks_nothing) && !is_switched_off() && support_of(input.device()).runs;
}

at::Tensor batch_norm(const at::Tensor& input, const Arguments& arguments) {
  return ChannelsLastBatchNorm::apply(input, arguments.weight, arguments.bias, arguments);
}

}  // namespace lockstep::nn::channels_last
