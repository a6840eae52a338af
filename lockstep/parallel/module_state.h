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
  // Of its gradient in a bucket, alike on all ranks; empty: those that the tensor has then.
  std::vector<std::int64_t> strides;
};

// Those with requires_grad, in the order of named_modules(), each once, however many modules share
// it. `ignored` are names of parameters and buffers to leave alone.
std::vector<Parameter> managed_parameters(const torch::nn::Module& module,
                                          const std::set<std::string>& ignored);

// Whether some parameter requires a gradient and is none of these. Every forward asks, so it makes
// no names and no copies: 6 us for a ResNet-50, named_parameters() takes 80 (2-core Xeon,
// 2026-11-16).
bool has_parameter_besides(const torch::nn::Module& module,
                           const std::unordered_set<const void*>& known);

// A tensor's own strides where it has no gaps, else those of a contiguous one: autograd makes
// gradients like that.
std::vector<std::int64_t> strides_of_gradient(const at::Tensor& tensor);

// All parameters, frozen ones too, then all buffers: what replicas start with. Without history; a
// write to them does not count as a change in autograd's eyes. Throws UsageError for one that was
// expanded.
std::vector<at::Tensor> states(const torch::nn::Module& module,
                               const std::set<std::string>& ignored);
std::vector<at::Tensor> buffers(const torch::nn::Module& module,
                                const std::set<std::string>& ignored);

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
NamedTensors named_buffers(const torch::nn::Module& module, const std::set<std::string>& ignored);

// Without those that came before: torch::nn::Module::parameters() has a tensor once for each module
// that shares it, and an optimizer would change it as often.
std::vector<at::Tensor> each_once(std::vector<at::Tensor> tensors);

}  // namespace lockstep::parallel
