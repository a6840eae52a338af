#include "lockstep/parallel/module_state.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <unordered_set>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

using Seen = std::unordered_set<const void*>;

// Gives access to a module's own parameters, which are protected: a derived class may name them. No
// object of this class is ever made.
struct OwnParameters : torch::nn::Module {
  static const auto& of(const torch::nn::Module& module) {
    return module.*(&OwnParameters::parameters_);
  }
};

bool makes_sparse_gradients(const torch::nn::Module& module) {
  if (const auto* embedding = module.as<torch::nn::EmbeddingImpl>()) {
    return embedding->options.sparse();
  }
  if (const auto* bag = module.as<torch::nn::EmbeddingBagImpl>()) {
    return bag->options.sparse();
  }
  return false;
}

// Visits a module and those below it, each once, parents first: Python's named_modules().
template <class Visit>
void each_module(const torch::nn::Module& module, const std::string& prefix, Seen& seen,
                 const Visit& visit) {
  if (!seen.insert(&module).second) {
    return;
  }
  visit(module, prefix);
  for (const auto& child : module.named_children()) {
    each_module(*child.value(), prefix + child.key() + ".", seen, visit);
  }
}

// An expanded tensor cannot be written: several of its elements are the same memory.
bool is_expanded(const at::Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1 && tensor.stride(i) == 0) {
      return true;
    }
  }
  return false;
}

void require_own_memory(const at::Tensor& tensor, const std::string& name) {
  if (is_expanded(tensor)) {
    throw UsageError(
        "'" + name + "' of shape " + c10::str(tensor.sizes()) +
        " is an expanded tensor, whose elements share memory; register a contiguous() one");
  }
}

template <class Named>
void add(const Named& named, const std::string& prefix, const std::set<std::string>& ignored,
         Seen& seen, NamedTensors& found) {
  for (const auto& item : named) {
    if (!ignored.contains(prefix + item.key()) &&
        seen.insert(item.value().unsafeGetTensorImpl()).second) {
      require_own_memory(item.value(), prefix + item.key());
      // variable_data() counts versions of its own: BatchNorm's backward checks those of the
      // buffers.
      found.emplace_back(prefix + item.key(), item.value().variable_data());
    }
  }
}

std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(named.size());
  for (const auto& item : named) {
    tensors.push_back(item.second);
  }
  return tensors;
}

void collect_state(const torch::nn::Module& module, const std::string& prefix,
                   NamedTensors& state) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    state.emplace_back(prefix + item.key(), item.value().detach());
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    state.emplace_back(prefix + item.key(), item.value().detach());
  }
  for (const auto& child : module.named_children()) {
    collect_state(*child.value(), prefix + child.key() + ".", state);
  }
}

}  // namespace

std::vector<Parameter> managed_parameters(const torch::nn::Module& module,
                                          const std::set<std::string>& ignored) {
  std::vector<Parameter> found;
  Seen modules;
  Seen tensors;
  each_module(module, "", modules, [&](const torch::nn::Module& owner, const std::string& prefix) {
    for (const auto& item : owner.named_parameters(/*recurse=*/false)) {
      const auto name = prefix + item.key();
      if (item.value().requires_grad() && !ignored.contains(name) &&
          tensors.insert(item.value().unsafeGetTensorImpl()).second) {
        found.push_back({.name = name,
                         .owner = owner.name(),
                         .tensor = item.value(),
                         .sparse = makes_sparse_gradients(owner),
                         .strides = strides_of_gradient(item.value())});
      }
    }
  });
  return found;
}

std::string names_of(const std::vector<const Parameter*>& parameters) {
  constexpr std::size_t kNamed = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(parameters.size(), kNamed); ++i) {
    text += (i == 0 ? "'" : ", '") + parameters[i]->name + "' (" + parameters[i]->owner + ")";
  }
  if (parameters.size() > kNamed) {
    text += " and " + std::to_string(parameters.size() - kNamed) + " more";
  }
  return text;
}

bool has_parameter_besides(const torch::nn::Module& module,
                           const std::unordered_set<const void*>& known) {
  bool found = false;
  module.apply([&](const torch::nn::Module& owner) {
    for (const auto& item : OwnParameters::of(owner)) {
      const auto& tensor = item.value();
      found = found || (tensor.requires_grad() && !known.contains(tensor.unsafeGetTensorImpl()));
    }
  });
  return found;
}

std::vector<std::int64_t> strides_of_gradient(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) {
    return tensor.strides().vec();
  }
  std::vector<std::int64_t> strides(static_cast<std::size_t>(tensor.dim()));
  std::int64_t next = 1;
  for (auto i = strides.size(); i-- > 0;) {
    strides[i] = next;
    next *= tensor.sizes()[i];
  }
  return strides;
}

std::vector<at::Tensor> states(const torch::nn::Module& module,
                               const std::set<std::string>& ignored) {
  NamedTensors found;
  Seen modules;
  Seen tensors;
  each_module(module, "", modules, [&](const torch::nn::Module& owner, const std::string& prefix) {
    add(owner.named_parameters(/*recurse=*/false), prefix, ignored, tensors, found);
  });
  auto all = tensors_of(found);
  const auto rest = buffers(module, ignored);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

NamedTensors named_buffers(const torch::nn::Module& module, const std::set<std::string>& ignored) {
  NamedTensors found;
  Seen modules;
  Seen tensors;
  each_module(module, "", modules, [&](const torch::nn::Module& owner, const std::string& prefix) {
    add(owner.named_buffers(/*recurse=*/false), prefix, ignored, tensors, found);
  });
  return found;
}

std::vector<at::Tensor> buffers(const torch::nn::Module& module,
                                const std::set<std::string>& ignored) {
  std::vector<at::Tensor> found;
  Seen seen;
  bool by_name = !ignored.empty();
  module.apply([&](const torch::nn::Module& owner) {  // Names take most of the time of a walk.
    for (const auto& buffer : owner.buffers(/*recurse=*/false)) {
      by_name = by_name || is_expanded(buffer);
      if (!by_name && seen.insert(buffer.unsafeGetTensorImpl()).second) {
        found.push_back(buffer.variable_data());
      }
    }
  });
  return by_name ? tensors_of(named_buffers(module, ignored)) : found;
}

NamedTensors state_dict(const torch::nn::Module& module) {
  NamedTensors state;
  collect_state(module, "", state);
  return state;
}

std::vector<at::Tensor> each_once(std::vector<at::Tensor> tensors) {
  Seen seen;
  std::erase_if(tensors, [&](const at::Tensor& tensor) {
    return !seen.insert(tensor.unsafeGetTensorImpl()).second;
  });
  return tensors;
}

}  // namespace lockstep::parallel
