// What a layer needs of the other ranks, so that layers need no process group.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace lockstep::nn {

// Both functions are collectives. They throw PeerError if a rank is gone or late.
class RankExchange : public torch::CustomClassHolder {
 public:
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual int rank() const = 0;
  // Row i is rank i's tensor. All have one shape, [n].
  [[nodiscard]] virtual at::Tensor gather(const at::Tensor& own) const = 0;
  // Replaces the tensor by the sum over the ranks.
  virtual void sum(const at::Tensor& tensor) const = 0;
};

using RankExchangePointer = c10::intrusive_ptr<RankExchange>;

}  // namespace lockstep::nn
