// PowerSGD (https://arxiv.org/abs/1905.13727): gradients travel as products of two thin matrices.
//
//   ddp.register_comm_hook(lockstep::power_sgd_hook(world, {.matrix_approximation_rank = 2}));
#pragma once

#include <cstdint>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/hooks/comm_hook.h"

namespace lockstep {

// PyTorch's names and defaults. Ranks have the same ones.
struct PowerSgdOptions {
  std::int64_t matrix_approximation_rank = 1;  // Columns of a thin matrix.
  // Steps that average gradients as they are. At least 2 with error feedback or warm start, because
  // buckets change after the first step.
  std::int64_t start_power_sgd_iter = 1000;
  // A gradient travels as it is, unless compression saves more than this factor.
  double min_compression_rate = 2;
  bool use_error_feedback = true;        // What compression lost is added in the next step.
  bool warm_start = true;                // A step begins with the matrices of the one before.
  double orthogonalization_epsilon = 0;  // Against columns of zeros: 1e-8, say.
  std::uint32_t random_seed = 0;
  bool batch_tensors_with_same_shape = false;
};

// torch.distributed's powerSGD_hook: the same numbers from the same seed. It has a state, so each
// DistributedDataParallel needs one of its own. Two of the three sums of a bucket run at the end of
// backward. Throws UsageError for options that cannot work.
CommHook power_sgd_hook(const Group& group, const PowerSgdOptions& options = {});

}  // namespace lockstep
