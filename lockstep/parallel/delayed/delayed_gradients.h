// Gradients that are averaged apart from the buckets, when that of one chosen parameter is ready:
// delay_all_reduce_named_params of PyTorch's DistributedDataParallel.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/autograd/gradient_hooks.h"
#include "lockstep/parallel/module_state.h"
#include "lockstep/parallel/step_errors.h"

namespace lockstep::parallel {

struct Delayed {
  NamedTensors parameters;
  // When its gradient is ready in a backward, those of the parameters are averaged. It need not be
  // the module's.
  at::Tensor hooked;
};

// Throws UsageError if the parameters are not the module's, or cannot be delayed.
void require_delayable(const torch::nn::Module& module, const Delayed& delayed);

// The gradients lie in one tensor, and this holds for every backward, as in PyTorch: no_sync() and
// other options of DistributedDataParallel do not matter to them. Must be made by std::make_shared,
// so that a backward pass that outlives it can tell.
class DelayedGradients : public std::enable_shared_from_this<DelayedGradients> {
 public:
  // `errors` must outlive it. `finished` runs at the end of every backward that averaged them.
  DelayedGradients(const Group& group, const Delayed& delayed, StepErrors& errors,
                   std::function<void()> finished);
  ~DelayedGradients();
  DelayedGradients(const DelayedGradients&) = delete;
  DelayedGradients& operator=(const DelayedGradients&) = delete;

  // To be called before and after a forward with gradients. Throws UsageError if the backward
  // before left gradients that were not averaged.
  void before_forward();
  // An undefined gradient becomes zeros that the next backward adds to.
  void after_forward();

 private:
  void make_places();
  void on_gradient(std::size_t parameter);
  void put(std::size_t parameter);
  void start();
  void finish();

  Group group_;
  std::vector<Parameter> parameters_;
  at::Tensor hooked_;
  unsigned hook_ = 0;
  StepErrors& errors_;
  std::function<void()> finished_;
  at::Tensor flat_;
  std::vector<at::Tensor> places_;    // By parameter.
  std::optional<Work> work_;          // While they are summed.
  std::optional<std::size_t> waits_;  // A parameter whose gradient has not been averaged yet.
  std::unique_ptr<GradientHooks> hooks_;
};

}  // namespace lockstep::parallel
