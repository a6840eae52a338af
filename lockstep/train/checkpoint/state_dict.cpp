#include "lockstep/train/checkpoint/state_dict.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/train/optim/model_ema.h"

namespace lockstep {
namespace {

constexpr std::string_view kPrefix = "module.";
constexpr std::string_view kCompiled = "_orig_mod.";
constexpr std::string_view kCounter = "num_batches_tracked";

// The counter of Python's AveragedModel, beside "module.0.weight" and so on.
bool is_average_counter(const std::string& name) { return name == "n_averaged"; }

bool all_have_prefix(const StateDict& state) {
  const auto with_prefix = [](const auto& item) { return item.first.starts_with(kPrefix); };
  return std::ranges::any_of(state, with_prefix) &&
         std::ranges::all_of(state, [&](const auto& item) {
           return with_prefix(item) || is_average_counter(item.first);
         });
}

// Without the part of a path that torch.compile() adds, for a model or a layer of it.
std::string without_compiled(std::string name) {
  for (auto at = name.find(kCompiled); at != std::string::npos; at = name.find(kCompiled, at)) {
    if (at > 0 && name[at - 1] != '.') {
      at += 1;
    } else {
      name.erase(at, kCompiled.size());
    }
  }
  return name;
}

// As it is where two names would become one, or a network has such names itself.
StateDict of_plain_model(const StateDict& own, const StateDict& state) {
  const auto is_plain = [](const auto& item) { return without_compiled(item.first) == item.first; };
  if (!std::ranges::all_of(own, is_plain)) {
    return state;
  }
  StateDict plain;
  std::unordered_set<std::string> names;
  for (const auto& [name, tensor] : state) {
    plain.emplace_back(without_compiled(name), tensor);
    if (!names.insert(plain.back().first).second) {
      return state;
    }
  }
  return plain;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size())));
  return join(first, ", ") +
         (names.size() > kShown ? " and " + std::to_string(names.size() - kShown) + " more" : "");
}

std::string shape_text(const at::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const auto size : tensor.sizes()) {
    sizes.push_back(std::to_string(size));
  }
  return "[" + join(sizes, ", ") + "]";
}

LoadedState load_into(const StateDict& own, const StateDict& state,
                      const LoadStateOptions& options) {
  const StateDict named = named_as(own, state);
  std::unordered_map<std::string, at::Tensor> given(named.begin(), named.end());
  std::unordered_set<std::string> names;
  for (const auto& item : given) {
    names.insert(item.first);
  }
  // Files of torch before 0.4.1 have no counter beside the mean; Python lets it be, too.
  const auto is_old_counter = [&](const std::string& name) {
    return name.ends_with(kCounter) &&
           names.contains(name.substr(0, name.size() - kCounter.size()) + "running_mean");
  };
  LoadedState result;
  std::vector<std::string> other_shapes;
  std::vector<std::string> without_contents;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (const auto& [name, tensor] : own) {
    const auto found = given.find(name);
    if (found == given.end()) {
      if (!is_old_counter(name)) {
        result.missing_keys.push_back(name);
      }
    } else if (!found->second.defined() || found->second.is_meta()) {
      without_contents.push_back(name);
    } else if (found->second.sizes() != tensor.sizes() && !options.head.empty() &&
               name.starts_with(options.head + ".")) {
      result.kept_keys.push_back(name);
    } else if (found->second.sizes() != tensor.sizes()) {
      other_shapes.push_back(name + " is " + shape_text(found->second) + ", expected " +
                             shape_text(tensor));
    } else {
      copies.emplace_back(tensor, found->second);
    }
    if (found != given.end()) {
      given.erase(found);
    }
  }
  for (const auto& item : given) {
    result.unexpected_keys.push_back(item.first);
  }
  std::ranges::sort(result.unexpected_keys);
  std::vector<std::string> faults;
  if (options.strict && !result.missing_keys.empty()) {
    faults.push_back("missing: " + listed(result.missing_keys));
  }
  if (options.strict && !result.unexpected_keys.empty()) {
    faults.push_back("unexpected: " + listed(result.unexpected_keys));
  }
  if (!other_shapes.empty()) {
    faults.push_back("of another shape: " + listed(other_shapes));
  }
  if (!without_contents.empty()) {
    faults.push_back("undefined or on 'meta': " + listed(without_contents));
  }
  if (!faults.empty()) {
    throw UsageError("load_state_dict: the state is not that of this model; " + join(faults, "; "));
  }
  const at::NoGradGuard no_grad;
  for (auto& [to, from] : copies) {
    to.copy_(from);
  }
  return result;
}

}  // namespace

StateDict named_as(const StateDict& own, const StateDict& state) {
  StateDict named = of_plain_model(own, state);
  const bool own_prefix = all_have_prefix(own);
  const bool prefix = all_have_prefix(named);
  if (prefix) {
    std::erase_if(named, [](const auto& item) { return is_average_counter(item.first); });
  }
  for (auto& item : named) {
    if (prefix && !own_prefix) {
      item.first.erase(0, kPrefix.size());
    } else if (own_prefix && !prefix) {
      item.first.insert(0, kPrefix);
    }
  }
  return named;
}

StateDict state_dict(const optim::ModelEma& ema) {
  StateDict state;
  for (const auto& item : ema.averages()) {
    state.emplace_back(item.key(), item.value());
  }
  return state;
}

LoadedState load_state_dict(torch::nn::Module& module, const StateDict& state,
                            const LoadStateOptions& options) {
  return load_into(state_dict(module), state, options);
}

LoadedState load_state_dict(optim::ModelEma& ema, const StateDict& state,
                            const LoadStateOptions& options) {
  return load_into(state_dict(ema), state, options);
}

}  // namespace lockstep
