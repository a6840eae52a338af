#include "lockstep/nn/max_pool.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/pooling.h>

#include "lockstep/nn/halve.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// PyTorch's kernels use all threads of a process, but one thread of theirs takes about 7 times as
// long as ours (2-core Xeon, random images of 28 x 28, 2026-11-18).
constexpr int kMostThreads = 4;

halve::Planes planes_of(const at::Tensor& input) {
  return {.count = input.size(0) * input.size(1), .height = input.size(2), .width = input.size(3)};
}

struct Halved : torch::autograd::Function<Halved> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input) {
    auto output = at::empty({input.size(0), input.size(1), input.size(2) / 2, input.size(3) / 2},
                            input.options());
    halve::forward(planes_of(input), input.const_data_ptr<float>(),
                   output.mutable_data_ptr<float>());
    context->save_for_backward({input});
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto input = context->get_saved_variables().front();
    if (at::GradMode::is_enabled()) {  // create_graph
      const auto indices = std::get<1>(at::max_pool2d_with_indices(input, 2, 2));
      return {at::max_pool2d_with_indices_backward(gradients.front(), input, 2, 2, 0, 1,
                                                   /*ceil_mode=*/false, indices)};
    }
    const auto gradient = gradients.front().contiguous();
    auto of_input = at::empty_like(input);
    halve::backward(planes_of(input), input.const_data_ptr<float>(),
                    gradient.const_data_ptr<float>(), of_input.mutable_data_ptr<float>());
    return {of_input};
  }
};

bool all_are(const torch::ExpandingArray<2>& sizes, std::int64_t value) {
  return sizes->at(0) == value && sizes->at(1) == value;
}

}  // namespace

bool has_own_kernels(const at::Tensor& input, const torch::nn::MaxPool2dOptions& options) {
  const bool halves = all_are(options.kernel_size(), 2) && all_are(options.stride(), 2) &&
                      all_are(options.padding(), 0) && all_are(options.dilation(), 1) &&
                      !options.ceil_mode();
  return halves && input.defined() && input.is_cpu() && input.scalar_type() == at::kFloat &&
         input.layout() == at::kStrided && input.dim() == 4 && input.is_contiguous() &&
         input.size(2) >= 2 && input.size(3) >= 2 && input.numel() > 0 &&
         at::get_num_threads() <= kMostThreads;
}

void MaxPool2dImpl::pretty_print(std::ostream& stream) const {
  torch::nn::MaxPool2dImpl(options).pretty_print(stream);
}

at::Tensor MaxPool2dImpl::forward(const at::Tensor& input) {
  if (has_own_kernels(input, options)) {
    return Halved::apply(input);
  }
  return at::max_pool2d(input, options.kernel_size(), options.stride(), options.padding(),
                        options.dilation(), options.ceil_mode());
}

}  // namespace lockstep::nn
