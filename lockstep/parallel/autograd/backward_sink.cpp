#include "lockstep/parallel/autograd/backward_sink.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <set>

namespace lockstep::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Sink : torch::autograd::Function<Sink> {
  static variable_list forward(AutogradContext* context, at::TensorList inputs) {
    context->set_materialize_grads(false);
    variable_list outputs;
    for (const auto& input : inputs) {
      outputs.push_back(input.clone());
    }
    return outputs;
  }
  static variable_list backward(AutogradContext* /*context*/, variable_list gradients) {
    return gradients;
  }
};

struct CallBefore : torch::autograd::FunctionPreHook {
  explicit CallBefore(std::function<void()> function) : call(std::move(function)) {}
  variable_list operator()(const variable_list& gradients) override {
    call();
    return gradients;
  }
  std::function<void()> call;
};

}  // namespace

void pass_through_sink(const std::vector<at::Tensor*>& outputs, std::function<void()> begins) {
  std::vector<at::Tensor*> with_history;
  variable_list inputs;
  for (at::Tensor* output : outputs) {
    if (output->defined() && output->grad_fn()) {
      with_history.push_back(output);
      inputs.push_back(*output);
    }
  }
  if (inputs.empty() || !at::GradMode::is_enabled()) {
    return;
  }
  const auto passed = Sink::apply(at::TensorList(inputs));
  for (std::size_t i = 0; i < passed.size(); ++i) {
    *with_history[i] = passed[i];
  }
  passed.front().grad_fn()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [begins = std::move(begins)](const variable_list& gradients, const variable_list&) {
        begins();
        return gradients;
      }));
}

void when_backward_passes(const std::vector<at::Tensor*>& outputs,
                          const std::function<void()>& passes) {
  std::set<const void*> seen;  // Several outputs can have one node.
  for (const at::Tensor* output : outputs) {
    if (output->defined() && output->grad_fn() && seen.insert(output->grad_fn().get()).second) {
      output->grad_fn()->add_pre_hook(std::make_unique<CallBefore>(passes));
    }
  }
}

}  // namespace lockstep::parallel
