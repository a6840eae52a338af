// What a module holds that its replicas must agree on.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::parallel {

// A parameter whose gradient is averaged.
struct Parameter {
  std::string name;   // "layer1.0.conv1.weight".
  std::string owner;  // The type of the module that has it: "torch::nn::Conv2dImpl".
  at::Tensor tensor;
  bool sparse = false;  // Its gradients are sparse tensors.
  // The strides of its gradient in a bucket, the same on all ranks. Empty: those that the tensor
  // has when the bucket is made.
  std::vector<std::int64_t> strides;
};

// The parameters with requires_grad, in the order of named_modules(), each once, however many
// modules share it. `ignored` are names of parameters and buffers to leave alone.
std::vector<Parameter> managed_parameters(const torch::nn::Module& module,
                                          const std::set<std::string>& ignored);

// "'0.weight' (torch::nn::LinearImpl), ..." for an error; of many, the first ten.
std::string names_of(const std::vector<const Parameter*>& parameters);

// Whether some other parameter requires a gradient. Every forward asks this, so it makes no names
// and no copies: it takes 6 us for a ResNet-50, named_parameters() 80 (2-core Xeon, 2026-11-16).
bool has_parameter_besides(const torch::nn::Module& module,
                           const std::unordered_set<const void*>& known);

// A tensor's own strides if it has no gaps, else those of a contiguous tensor, as autograd chooses
// them for gradients.
std::vector<std::int64_t> strides_of_gradient(const at::Tensor& tensor);

// All parameters, frozen ones too, then all buffers: what replicas start with. They have no
// history, and autograd does not notice writes to them. Throws UsageError if one was expanded.
std::vector<at::Tensor> states(const torch::nn::Module& module,
                               const std::set<std::string>& ignored);
std::vector<at::Tensor> buffers(const torch::nn::Module& module,
                                const std::set<std::string>& ignored);

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
NamedTensors named_buffers(const torch::nn::Module& module, const std::set<std::string>& ignored);

// Parameters and buffers in the order of Python's state_dict(): a module's own parameters, its own
// buffers, then its children's. The tensors are the module's own, without history. One that two
// modules share is there under both names, as in Python.
NamedTensors state_dict(const torch::nn::Module& module);

// Removes repetitions: torch::nn::Module::parameters() has a tensor once for each module that
// shares it, and an optimizer would update it as often.
std::vector<at::Tensor> each_once(std::vector<at::Tensor> tensors);

}  // namespace lockstep::parallel
