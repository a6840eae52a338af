#include "lockstep/parallel/hooks/post_local_sgd_hook.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/parallel/hooks/default_hooks.h"

namespace lockstep {

CommHook post_local_sgd_hook(const Group& group, const Group& subgroup,
                             const PostLocalSgdOptions& options) {
  if (!subgroup.is_member()) {
    throw UsageError("post_local_sgd_hook: this process is no member of the subgroup");
  }
  const auto local = options.post_local_gradient_allreduce ? allreduce_hook(subgroup) : noop_hook();
  return [all = allreduce_hook(group), local, start = options.start_local_sgd_iter,
          iter = std::make_shared<std::int64_t>(0)](GradBucket& bucket) {
    if (*iter >= start) {
      return local(bucket);
    }
    *iter += bucket.is_last() ? 1 : 0;
    return all(bucket);
  };
}

PeriodicModelAverager::PeriodicModelAverager(const Group& group,
                                             const PeriodicModelAveragerOptions& options)
    : group_(group), options_(options) {
  if (options.period < 1 || options.warmup_steps < 0) {
    throw UsageError("PeriodicModelAverager: the period is " + std::to_string(options.period) +
                     " and warmup_steps " + std::to_string(options.warmup_steps) +
                     ", expected 1 or more and 0 or more");
  }
}

void PeriodicModelAverager::average_parameters(const std::vector<at::Tensor>& parameters) {
  const auto after_warmup = step_++ - options_.warmup_steps;
  if (after_warmup < 0 || after_warmup % options_.period != 0) {
    return;
  }
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> averaged;
  std::vector<at::Tensor> flat;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) {
      averaged.push_back(parameter);
      flat.push_back(parameter.reshape({-1}));
    }
  }
  if (averaged.empty()) {
    return;
  }
  const auto all = at::cat(flat).div_(group_.size());
  group_.all_reduce(all).wait();
  std::int64_t at = 0;
  for (const auto& parameter : averaged) {
    parameter.copy_(all.narrow(0, at, parameter.numel()).view(parameter.sizes()));
    at += parameter.numel();
  }
}

}  // namespace lockstep
