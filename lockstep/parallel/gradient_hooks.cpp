#include "lockstep/parallel/gradient_hooks.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

namespace lockstep::parallel {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

// A shared or an intrusive pointer, by version of torch. A tensor holds its own only weakly.
using Accumulator = decltype(torch::autograd::impl::grad_accumulator(at::Tensor()));

}  // namespace

struct GradientHooks::Hooked {
  Accumulator accumulator;
  std::uintptr_t key;
};

GradientHooks::GradientHooks(const std::vector<Parameter>& parameters, Ready ready) {
  const auto shared = std::make_shared<const Ready>(std::move(ready));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters[i].tensor);
    const auto key =
        accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [shared, i](const variable_list& outputs, const variable_list& inputs) {
              (*shared)(i, inputs.front());
              return outputs;
            }));
    hooked_.push_back({std::move(accumulator), key});
  }
}

GradientHooks::~GradientHooks() {
  for (const auto& hooked : hooked_) {
    hooked.accumulator->del_post_hook(hooked.key);
  }
}

std::vector<std::size_t> GradientHooks::unreachable_from(
    const std::vector<at::Tensor>& outputs) const {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> next;
  const auto visit = [&](const Node* node) {
    if (node != nullptr && seen.insert(node).second) {
      next.push_back(node);
    }
  };
  std::vector<torch::autograd::Edge> roots;  // Kept: an output may be the last to hold its node.
  for (const auto& output : outputs) {
    if (output.defined() && output.requires_grad()) {
      roots.push_back(torch::autograd::impl::gradient_edge(output));
      visit(roots.back().function.get());
    }
  }
  while (!next.empty()) {
    const Node* node = next.back();
    next.pop_back();
    for (const auto& edge : node->next_edges()) {
      visit(edge.function.get());
    }
  }
  std::vector<std::size_t> unreached;
  for (std::size_t i = 0; i < hooked_.size(); ++i) {
    if (!seen.contains(hooked_[i].accumulator.get())) {
      unreached.push_back(i);
    }
  }
  return unreached;
}

int current_backward() { return torch::autograd::get_current_graph_task_id(); }

bool backward_is_for_all() {
  const auto* only = torch::autograd::get_current_graph_task_exec_info();
  return only == nullptr || only->empty();
}

void when_backward_is_done(std::function<void()> done) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(done));
}

bool backward_is_nested() { return static_cast<bool>(torch::autograd::get_current_node()); }

}  // namespace lockstep::parallel
