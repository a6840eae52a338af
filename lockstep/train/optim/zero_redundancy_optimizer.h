// Each rank keeps the optimizer's state of its share of the parameters alone (ZeRO, stage 1):
// torch.distributed.optim.ZeroRedundancyOptimizer.
//
//   lockstep::DistributedDataParallel ddp(net, world);
//   namespace optim = lockstep::optim;
//   optim::ZeroRedundancyOptimizer<optim::AdamW> optimizer(world, ddp.parameters(), {.lr = 1e-3});
//   ...
//   optimizer.step();  // Collective.
#pragma once

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

  // state_dict() is that of this rank's parameters. This one is collective and gives rank `to` the
  // state of all of them, which load_state_dict() of any optimizer takes, in Python too; to other
  // ranks it gives their own. A rank that loads a whole state keeps its share.
  [[nodiscard]] OptimizerState consolidate_state_dict(int to = 0) const {
    return shards_.consolidated(this->state_dict(), to);
  }

  // The rank of each parameter, numbered group by group; the same on all ranks.
  [[nodiscard]] const std::vector<int>& owners() const { return shards_.owners(); }

 private:
  void finish_step() override { shards_.broadcast(); }
  [[nodiscard]] bool steps_in_parts() const override { return false; }

  [[nodiscard]] std::vector<std::vector<at::Tensor>> all_params() const {
    std::vector<std::vector<at::Tensor>> all;
    for (std::size_t group = 0; group < this->groups(); ++group) {
      all.push_back(this->params(group));
    }
    return all;
  }

  ParameterShards shards_;
};

}  // namespace lockstep::optim
