#include "lockstep/nn/batch_norm_over_ranks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm_kernels.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// An argument that is a tensor must be defined.
std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

struct Normalize : torch::autograd::Function<Normalize> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& any,
                            const std::optional<at::Tensor>& /*weight*/,
                            const std::optional<at::Tensor>& /*bias*/,
                            const BatchNormOverRanks& arguments) {
    const auto input = any.is_cuda() ? gpu::dense(any) : any;
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
