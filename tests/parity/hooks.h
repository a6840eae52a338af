// The communication hooks of the parity tests; hooks.py has the same ones under the same names.
#pragma once

#include <map>
#include <string>

#include "lockstep/parallel/hooks/default_hooks.h"
#include "lockstep/parallel/hooks/post_local_sgd_hook.h"
#include "lockstep/parallel/hooks/power_sgd_hook.h"

namespace lockstep::parity {

inline CommHook hook_named(const std::string& name, const Group& group) {
  return std::map<std::string, CommHook>{
      {"allreduce", allreduce_hook(group)},
      {"fp16", fp16_compress_hook(group)},
      {"bf16", bf16_compress_hook(group)},
      {"fp16_wrapper", fp16_compress_wrapper(allreduce_hook(group))},
      {"bf16_wrapper", bf16_compress_wrapper(allreduce_hook(group))},
      {"noop", noop_hook()},
      {"power_sgd",
       power_sgd_hook(group, {.matrix_approximation_rank = 2, .start_power_sgd_iter = 2})},
      {"power_sgd_rank_4", power_sgd_hook(group, {.matrix_approximation_rank = 4,
                                                  .start_power_sgd_iter = 3,
                                                  .min_compression_rate = 1,
                                                  .use_error_feedback = false,
                                                  .warm_start = false,
                                                  .random_seed = 7,
                                                  .batch_tensors_with_same_shape = true})},
      {"power_sgd_bf16", bf16_compress_wrapper(power_sgd_hook(group, {.start_power_sgd_iter = 2}))},
  }
      .at(name);
}

}  // namespace lockstep::parity
