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
#include "lockstep/device/graph.h"

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
    if (device.is_cuda() && device::Graph::is_stream_recorded()) {
      throw UsageError(
          "checkpoint: a step that takes random numbers back cannot be recorded; set "
          "preserve_rng_state = false if the function draws none");
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

// Which of the tensors are defined: autograd's functions take no others.
std::vector<bool> defined_in(const Tensors& tensors) {
  std::vector<bool> places;
  for (const auto& tensor : tensors) {
    places.push_back(tensor.defined());
  }
  return places;
}

Tensors without_undefined(Tensors tensors) {
  std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return tensors;
}

// Puts undefined tensors back where without_undefined() took them out; see defined_in().
Tensors with_undefined(const Tensors& tensors, const std::vector<bool>& places) {
  Tensors all;
  std::size_t next = 0;
  for (const bool defined : places) {
    all.push_back(defined ? tensors[next++] : at::Tensor());
  }
  return all;
}

// What backward needs besides the inputs.
struct Recipe : torch::CustomClassHolder {
  std::vector<bool> given;  // Which inputs are defined.
  std::vector<bool> made;   // Which outputs are.
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
    auto outputs =
        recipe->function(with_undefined(inputs.slice(0, inputs.size() - 1).vec(), recipe->given));
    recipe->made = defined_in(outputs);
    return without_undefined(std::move(outputs));
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
      input = input.detach().set_requires_grad(input.requires_grad());
    }
    const auto recipe =
        c10::static_intrusive_pointer_cast<Recipe>(context->saved_data["recipe"].toCapsule());
    auto outputs = recipe->run_again(with_undefined(inputs, recipe->given));
    require_same_outputs(defined_in(outputs), recipe->made);
    outputs = without_undefined(std::move(outputs));
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
      found.push_back(input.grad());
    }
    found.resize(found.size() + 2);  // Those of the last input and of the recipe.
    return found;
  }

 private:
  static void require_same_outputs(const std::vector<bool>& now, const std::vector<bool>& before) {
    if (now.size() != before.size()) {
      throw UsageError("checkpoint(): the function returned " + std::to_string(before.size()) +
                       " tensors in forward and " + std::to_string(now.size()) +
                       " in backward, expected the same");
    }
    if (now != before) {
      throw UsageError(
          "checkpoint(): the function returned other undefined tensors in backward than in "
          "forward, expected the same");
    }
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
  recipe->given = defined_in(inputs);
  auto with_root = without_undefined(inputs);
  with_root.push_back(at::empty({0}).set_requires_grad(true));
  return with_undefined(Recompute::apply(at::TensorList(with_root), recipe), recipe->made);
}

}  // namespace lockstep::utils
