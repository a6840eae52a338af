// Which rank keeps the optimizer's state of which parameter, and what the ranks tell each other.
#pragma once

#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/train/optim/optimizer.h"

namespace lockstep::optim {

// The rank of each parameter, numbered group by group: in each group the largest first, each to the
// rank that has fewest elements so far, as PyTorch does it.
std::vector<int> partition_parameters(const std::vector<std::vector<at::Tensor>>& groups,
                                      int ranks);

class ParameterShards {
 public:
  ParameterShards(Group group, const std::vector<std::vector<at::Tensor>>& params);

  [[nodiscard]] int rank() const { return group_.rank(); }
  [[nodiscard]] const std::vector<int>& owners() const { return owners_; }
  // Whether each parameter is this rank's.
  [[nodiscard]] std::vector<bool> own() const;

  // Collective: each parameter goes from its rank to all others.
  void broadcast() const;

  // Collective: adds the state of all ranks' parameters to what rank `to` has. Elsewhere the result
  // is `state`.
  [[nodiscard]] OptimizerState consolidated(OptimizerState state, int to) const;

  // Throws UsageError: this rank was asked for the state of all parameters and has but its own.
  [[noreturn]] void fail_unconsolidated() const;

 private:
  Group group_;
  std::vector<at::Tensor> params_;
  std::vector<int> owners_;
};

}  // namespace lockstep::optim
