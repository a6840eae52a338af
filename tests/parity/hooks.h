// The communication hooks of the parity tests; hooks.py has the same ones under the same names.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lockstep/parallel/hooks/default_hooks.h"
#include "lockstep/parallel/hooks/post_local_sgd_hook.h"
#include "lockstep/parallel/hooks/power_sgd_hook.h"

namespace lockstep::parity {

constexpr std::int64_t kStartLocal = 2;

// This rank's of the groups {0, 1}, {2, 3}: their sums have one order.
inline Group pair_of(const Group& group) {
  Group own = group;
  for (int first = 0; group.size() > 2 && first < group.size(); first += 2) {
    const auto pair =
        first + 1 < group.size() ? group.new_group({first, first + 1}) : group.new_group({first});
    if (pair.is_member()) {
      own = pair;
    }
  }
  return own;
}

inline CommHook hook_named(const std::string& name, const Group& group) {
  const PowerSgdOptions rank_4{.matrix_approximation_rank = 4,
                               .start_power_sgd_iter = 3,
                               .min_compression_rate = 1,
                               .use_error_feedback = false,
                               .warm_start = false,
                               .random_seed = 7,
                               .batch_tensors_with_same_shape = true};
  const std::map<std::string, std::function<CommHook()>> hooks{
      {"allreduce", [&] { return allreduce_hook(group); }},
      {"fp16", [&] { return fp16_compress_hook(group); }},
      {"bf16", [&] { return bf16_compress_hook(group); }},
      {"fp16_wrapper", [&] { return fp16_compress_wrapper(allreduce_hook(group)); }},
      {"bf16_wrapper", [&] { return bf16_compress_wrapper(allreduce_hook(group)); }},
      {"noop", [] { return noop_hook(); }},
      {"power_sgd",
       [&] {
         return power_sgd_hook(group, {.matrix_approximation_rank = 2, .start_power_sgd_iter = 2});
       }},
      {"power_sgd_rank_4", [&] { return power_sgd_hook(group, rank_4); }},
      {"power_sgd_bf16",
       [&] { return bf16_compress_wrapper(power_sgd_hook(group, {.start_power_sgd_iter = 2})); }},
      {"local_pairs",
       [&] {
         return post_local_sgd_hook(group, pair_of(group), {.start_local_sgd_iter = kStartLocal});
       }},
      {"local_alone",
       [&] {
         return post_local_sgd_hook(
             group, group,
             {.start_local_sgd_iter = kStartLocal, .post_local_gradient_allreduce = false});
       }},
  };
  return hooks.at(name)();
}

}  // namespace lockstep::parity
