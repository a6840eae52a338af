// Each rank keeps the optimizer's state of its share of the parameters alone (ZeRO, stage 1):
// torch.distributed.optim.ZeroRedundancyOptimizer.
//
//   lockstep::DistributedDataParallel ddp(net, world);
//   namespace optim = lockstep::optim;
//   optim::ZeroRedundancyOptimizer<optim::AdamW> optimizer(world, ddp.parameters(), {.lr = 1e-3});
//   ...
//   optimizer.step();  // Collective.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "lockstep/train/optim/parameter_shards.h"

namespace lockstep::optim {

// A step updates the parameters of this rank, then each goes to all ranks: the bits are those of
// the optimizer without sharding. Its gradients must be the same on all ranks, as after a backward
// of DistributedDataParallel. step() throws PeerError if a rank is gone. It does not belong inside
// DistributedDataParallel::join(): a rank without inputs calls no step().
template <class Local>
class ZeroRedundancyOptimizer : public Local {
 public:
  using Options = typename Local::Options;

  ZeroRedundancyOptimizer(const Group& group, std::vector<at::Tensor> params,
                          const Options& options = {})
      : Local(std::move(params), options), shards_(group, all_params()) {
    this->keep_only(shards_.own());
  }
  ZeroRedundancyOptimizer(const Group& group, const std::vector<ParamGroup<Options>>& groups)
      : Local(groups), shards_(group, all_params()) {
    this->keep_only(shards_.own());
  }

  // Collective: rank `to` gets the state of all parameters, which load_state_dict() of any
  // optimizer takes, in Python too; other ranks get their own. A rank that loads a whole state
  // keeps its share.
  OptimizerState consolidate_state_dict(int to = 0) {
    auto state = shards_.consolidated(Local::state_dict(), to);
    whole_ = shards_.rank() == to ? std::optional(state) : std::nullopt;
    return state;
  }

  // What consolidate_state_dict() gave this rank. Throws UsageError if it went to another rank, or
  // if there was a step or a load since: PyTorch's would mix states of two steps then. Until then
  // the state of all parameters stays in memory here.
  [[nodiscard]] OptimizerState state_dict() const override {
    if (!whole_) {
      shards_.fail_unconsolidated();
    }
    auto state = *whole_;
    state.param_groups =
        Local::state_dict().param_groups;  // The learning rate may be another by now.
    return state;
  }
  void load_state_dict(const OptimizerState& state) override {
    Local::load_state_dict(state);
    whole_.reset();
  }

  // The rank of each parameter, numbered group by group; the same on all ranks.
  [[nodiscard]] const std::vector<int>& owners() const { return shards_.owners(); }

 private:
  void finish_step() override {
    whole_.reset();
    shards_.broadcast();
  }
  [[nodiscard]] bool steps_in_parts() const override { return false; }

  [[nodiscard]] std::vector<std::vector<at::Tensor>> all_params() const {
    std::vector<std::vector<at::Tensor>> all;
    for (std::size_t group = 0; group < this->groups(); ++group) {
      all.push_back(this->params(group));
    }
    return all;
  }

  ParameterShards shards_;
  std::optional<OptimizerState> whole_;  // On the rank that it was consolidated on.
};

}  // namespace lockstep::optim
