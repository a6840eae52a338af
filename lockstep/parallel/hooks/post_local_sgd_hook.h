// Post-local SGD (https://arxiv.org/abs/1808.07217): after some steps gradients are averaged inside
// subgroups alone, and now and then the parameters of all ranks.
//
//   ddp.register_comm_hook(
//       lockstep::post_local_sgd_hook(world, node, {.start_local_sgd_iter = 100}));
//   lockstep::PeriodicModelAverager averager(world, {.period = 4, .warmup_steps = 100});
//   ...
//   optimizer.step();
//   averager.average_parameters(ddp.parameters());
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/hooks/comm_hook.h"

namespace lockstep {

struct PostLocalSgdOptions {
  std::int64_t start_local_sgd_iter = 0;  // Steps that average gradients over the whole group.
  // After them: averages over the subgroup. False: gradients stay on their rank.
  bool post_local_gradient_allreduce = true;
};

// It counts steps, so each DistributedDataParallel needs one of its own. This process is a member
// of the subgroup.
CommHook post_local_sgd_hook(const Group& group, const Group& subgroup,
                             const PostLocalSgdOptions& options = {});

struct PeriodicModelAveragerOptions {
  std::int64_t period = 1;        // Steps from one average to the next.
  std::int64_t warmup_steps = 0;  // Steps without.
};

// torch.distributed's, of the same name.
class PeriodicModelAverager {
 public:
  // Throws UsageError for a period of less than 1, or a negative warm-up.
  PeriodicModelAverager(const Group& group, const PeriodicModelAveragerOptions& options);

  // To be called by all ranks after each step of the optimizer: a collective when it is time. Those
  // without a gradient are left out, so ranks must agree on which these are.
  void average_parameters(const std::vector<at::Tensor>& parameters);

  // For a checkpoint.
  [[nodiscard]] std::int64_t step() const { return step_; }
  void set_step(std::int64_t step) { step_ = step; }

 private:
  Group group_;
  PeriodicModelAveragerOptions options_;
  std::int64_t step_ = 0;
};

}  // namespace lockstep
