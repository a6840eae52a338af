#include "lockstep/parallel/autograd/gradient_hooks.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

#include "lockstep/device/stream.h"

namespace lockstep::parallel {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

// A shared or an intrusive pointer, by version of torch. A tensor holds its own only weakly.
using Accumulator = decltype(torch::autograd::impl::grad_accumulator(at::Tensor()));

}  // namespace

struct GradientHooks::Hooked {
  at::Tensor tensor;
  std::string name;
  std::string type;  // When it was hooked.
  c10::Stream stream;
  Accumulator accumulator;
  std::uintptr_t key = 0;
};

GradientHooks::GradientHooks(const std::vector<Parameter>& parameters, Ready ready)
    : ready_(std::make_shared<const Ready>(std::move(ready))) {
  for (const auto& parameter : parameters) {
    hooked_.push_back({.tensor = parameter.tensor,
                       .name = parameter.name,
                       .type = parameter.tensor.toString(),
                       .stream = device::current_stream(parameter.tensor.device())});
    hook(hooked_.size() - 1);
  }
}

void GradientHooks::use_current_streams() {
  for (std::size_t i = 0; i < hooked_.size(); ++i) {
    auto& hooked = hooked_[i];
    if (!hooked.tensor.is_cpu() &&
        device::current_stream(hooked.tensor.device()) != hooked.stream) {
      hooked.accumulator->del_post_hook(hooked.key);
      hooked.accumulator = nullptr;
      hook(i);
    }
  }
}

void GradientHooks::hook(std::size_t parameter) {
  auto& hooked = hooked_[parameter];
  hooked.stream = device::current_stream(hooked.tensor.device());
  hooked.accumulator = torch::autograd::impl::grad_accumulator(hooked.tensor);
  hooked.key =
      hooked.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [ready = ready_, parameter](const variable_list& outputs, const variable_list& inputs) {
            (*ready)(parameter, inputs.front());
            return outputs;
          }));
}

GradientHooks::~GradientHooks() {
  for (const auto& hooked : hooked_) {
    hooked.accumulator->del_post_hook(hooked.key);
  }
}

std::string GradientHooks::follow() {
  for (std::size_t i = 0; i < hooked_.size(); ++i) {
    auto& hooked = hooked_[i];
    if (torch::autograd::impl::try_get_grad_accumulator(hooked.tensor) == hooked.accumulator) {
      continue;
    }
    if (hooked.tensor.toString() != hooked.type) {
      return "'" + hooked.name + "' is " + hooked.tensor.toString() + ", was " + hooked.type;
    }
    hooked.accumulator->del_post_hook(hooked.key);
    hook(i);
  }
  return "";
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
