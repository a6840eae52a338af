#include "lockstep/nn/recompute.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <array>
#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::utils {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The default generators of the CPU and of the GPUs that inputs are on.
class RandomState {
 public:
  static RandomState current(const Tensors& inputs) {
    RandomState state;
    state.add(at::Device(at::kCPU));
    for (const auto& input : inputs) {
      if (input.defined() && input.is_cuda()) {
        state.add(input.device());
      }
    }
    return state;
  }
  // The states of the same generators now.
  [[nodiscard]] RandomState now() const {
    RandomState state;
    for (const auto& [device, bytes] : states_) {
      state.add(device);
    }
    return state;
  }
  void restore() const {
    for (const auto& [device, bytes] : states_) {
      auto generator = at::globalContext().defaultGenerator(device);
      const std::lock_guard lock(generator.mutex());
      generator.set_state(bytes);
    }
  }

 private:
  void add(at::Device device) {
    for (const auto& [known, bytes] : states_) {
      if (known == device) {
        return;
      }
    }
    auto generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    states_.emplace_back(device, generator.get_state());
  }
  std::vector<std::pair<at::Device, at::Tensor>> states_;
};

struct AutocastState {
  static AutocastState current() {
    AutocastState state;
    for (std::size_t i = 0; i < kDevices.size(); ++i) {
      state.enabled[i] = at::autocast::is_autocast_enabled(kDevices[i]);
      state.types[i] = at::autocast::get_autocast_dtype(kDevices[i]);
    }
    state.caches = at::autocast::is_autocast_cache_enabled();
    return state;
  }
  void restore() const {
    for (std::size_t i = 0; i < kDevices.size(); ++i) {
      at::autocast::set_autocast_enabled(kDevices[i], enabled[i]);
      at::autocast::set_autocast_dtype(kDevices[i], types[i]);
    }
    at::autocast::set_autocast_cache_enabled(caches);
  }

  static constexpr std::array kDevices{at::kCPU, at::kCUDA};
  std::array<bool, kDevices.size()> enabled{};
  std::array<at::ScalarType, kDevices.size()> types{};
  bool caches = false;
};

// What backward needs besides the inputs.
struct Recipe : torch::CustomClassHolder {
  std::function<Tensors(const Tensors&)> function;
  AutocastState autocast;
  std::optional<RandomState> random;

  // Runs the function as in forward, with a graph; everything is as before when it returns.
  Tensors run_again(const Tensors& inputs) const {
    struct Restore {
      AutocastState autocast = AutocastState::current();
      std::optional<RandomState> random;
      ~Restore() {
        // A cast that was cached without a graph, or in it, must not be used in the other.
        at::autocast::clear_cache();
        autocast.restore();
        if (random) {
          random->restore();
        }
      }
    } restore;
    if (random) {
      restore.random = random->now();
      random->restore();
    }
    at::autocast::clear_cache();
    autocast.restore();
    const at::AutoGradMode with_graph(true);
    return function(inputs);
  }
};

struct Recompute : torch::autograd::Function<Recompute> {
  // The last input makes the graph reach this, even if no other requires a gradient.
  static variable_list forward(AutogradContext* context, at::TensorList inputs,
                               const c10::intrusive_ptr<Recipe>& recipe) {
    context->save_for_backward(inputs.vec());
    context->saved_data["recipe"] = c10::IValue::make_capsule(recipe);
    context->set_materialize_grads(false);
    return recipe->function(inputs.slice(0, inputs.size() - 1).vec());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (!torch::autograd::Engine::get_default_engine().is_checkpoint_valid()) {
      throw UsageError(
          "checkpoint() inside torch::autograd::grad(): the gradients of its parameters would be "
          "added to them; call backward()");
    }
    auto inputs = context->get_saved_variables();
    inputs.pop_back();
    for (auto& input : inputs) {
      if (input.defined()) {
        input = input.detach().set_requires_grad(input.requires_grad());
      }
    }
    const auto recipe =
        c10::static_intrusive_pointer_cast<Recipe>(context->saved_data["recipe"].toCapsule());
    const auto outputs = recipe->run_again(inputs);
    if (outputs.size() != gradients.size()) {
      throw UsageError("checkpoint(): the function returned " + std::to_string(gradients.size()) +
                       " tensors in forward and " + std::to_string(outputs.size()) +
                       " in backward, expected the same");
    }
    variable_list roots;
    variable_list seeds;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (gradients[i].defined() && outputs[i].requires_grad()) {
        roots.push_back(outputs[i]);
        seeds.push_back(gradients[i]);
      }
    }
    if (!roots.empty()) {
      torch::autograd::backward(roots, seeds);
    }
    variable_list found;
    for (const auto& input : inputs) {
      found.push_back(input.defined() ? input.grad() : at::Tensor());
    }
    found.resize(found.size() + 2);  // Those of the last input and of the recipe.
    return found;
  }
};

}  // namespace

Tensors checkpoint(std::function<Tensors(const Tensors&)> function, const Tensors& inputs,
                   const CheckpointOptions& options) {
  if (!at::GradMode::is_enabled()) {
    return function(inputs);
  }
  const auto recipe = c10::make_intrusive<Recipe>();
  recipe->function = std::move(function);
  recipe->autocast = AutocastState::current();
  if (options.preserve_rng_state) {
    recipe->random = RandomState::current(inputs);
  }
  auto with_root = inputs;
  with_root.push_back(at::empty({0}).set_requires_grad(true));
  return Recompute::apply(at::TensorList(with_root), recipe);
}

}  // namespace lockstep::utils
