// Parts that SGD and Adam share.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "lockstep/train/optim/optimizer.h"

namespace lockstep::optim {

// How fused kernels are given tensors. They give 65,536 elements to a block, so with a small
// network most of a GPU does nothing: 14 of the 130 us of a step of an MLP on an H200 (2026-11-16).
// While a graph is recorded, tensors of a small network are cut into pieces that fill it. Eagerly
// the host is what is slow, and large networks fill it as they are.
class Pieces {
 public:
  explicit Pieces(const std::vector<at::Tensor>& params);
  [[nodiscard]] std::vector<at::Tensor> of(const std::vector<at::Tensor>& tensors) const;
  // The same tensor for each piece of its parameter.
  [[nodiscard]] std::vector<at::Tensor> repeated(const std::vector<at::Tensor>& tensors) const;

 private:
  std::vector<std::int64_t> pieces_;  // Of each parameter.
  std::int64_t elements_ = 0;         // Of a piece; 0: nothing is cut.
};

template <class Options>
std::vector<std::vector<at::Tensor>> params_of(const std::vector<ParamGroup<Options>>& groups) {
  std::vector<std::vector<at::Tensor>> params;
  for (const auto& group : groups) {
    params.push_back(group.params);
  }
  return params;
}

template <class Options>
std::vector<Options> options_of_groups(const std::vector<ParamGroup<Options>>& groups) {
  std::vector<Options> options;
  for (const auto& group : groups) {
    options.push_back(group.options);
  }
  return options;
}

OptionValue fused_value(const std::optional<bool>& fused);
// Nothing if it is missing or None.
std::optional<bool> fused_option(const OptionValues& values);

}  // namespace lockstep::optim
