// The schedules of run_schedules.py.
#pragma once

#include <ATen/ops/zeros.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/train/optim/lr_scheduler.h"
#include "lockstep/train/optim/sgd.h"

namespace lockstep::optim {

using Made = std::unique_ptr<LRScheduler>;

inline constexpr int kEpochs = 200;
inline constexpr int kHalf = 73;

inline std::unique_ptr<SGD> make_optimizer() {
  const auto param = [] { return at::zeros({2}).requires_grad_(); };
  return std::make_unique<SGD>(
      std::vector<ParamGroup<SGDOptions>>{{{param()}, {.lr = 0.1}}, {{param()}, {.lr = 0.0317}}});
}

template <class Kind, class Options>
std::shared_ptr<FormulaLR> part(Optimizer& optimizer, const Options& options) {
  return std::make_shared<Kind>(optimizer, options);
}

// As in run_schedules.py.
inline const std::map<std::string, std::function<Made(Optimizer&)>>& cases() {
  static const std::map<std::string, std::function<Made(Optimizer&)>> all{
      {"step", [](auto& o) { return std::make_unique<StepLR>(o, StepLROptions{}); }},
      {"step_odd",
       [](auto& o) {
         return std::make_unique<StepLR>(o, StepLROptions{.step_size = 7, .gamma = 0.83});
       }},
      {"multistep",
       [](auto& o) {
         return std::make_unique<MultiStepLR>(
             o, MultiStepLROptions{.milestones = {30, 60, 60, 90}, .gamma = 0.3});
       }},
      {"cosine",
       [](auto& o) {
         return std::make_unique<CosineAnnealingLR>(o, CosineAnnealingLROptions{.t_max = 200});
       }},
      {"cosine_again",
       [](auto& o) {
         return std::make_unique<CosineAnnealingLR>(
             o, CosineAnnealingLROptions{.t_max = 30, .eta_min = 1e-5});
       }},
      {"linear",
       [](auto& o) {
         return std::make_unique<LinearLR>(
             o, LinearLROptions{.start_factor = 0.01, .total_iters = 90});
       }},
      {"linear_down",
       [](auto& o) {
         return std::make_unique<LinearLR>(
             o, LinearLROptions{.start_factor = 1, .end_factor = 0.1, .total_iters = 13});
       }},
      {"warmup_cosine",
       [](auto& o) {
         std::vector parts{
             part<LinearLR>(o, LinearLROptions{.start_factor = 0.01, .total_iters = 5}),
             part<CosineAnnealingLR>(o, CosineAnnealingLROptions{.t_max = 195, .eta_min = 1e-6})};
         return std::make_unique<SequentialLR>(o, parts, std::vector<std::int64_t>{5});
       }},
      {"warmup_step",
       [](auto& o) {
         std::vector parts{
             part<LinearLR>(o, LinearLROptions{.start_factor = 0.033, .total_iters = 100}),
             part<StepLR>(o, StepLROptions{.step_size = 30, .gamma = 0.9})};
         return std::make_unique<SequentialLR>(o, parts, std::vector<std::int64_t>{100});
       }},
      {"warmup_multistep",  // The second part begins after the change of sides.
       [](auto& o) {
         std::vector parts{
             part<LinearLR>(o, LinearLROptions{.start_factor = 0.1, .total_iters = 90}),
             part<MultiStepLR>(o, MultiStepLROptions{.milestones = {10, 30, 30}})};
         return std::make_unique<SequentialLR>(o, parts, std::vector<std::int64_t>{90});
       }},
      {"three",
       [](auto& o) {
         std::vector parts{
             part<LinearLR>(o, LinearLROptions{.start_factor = 0.5, .total_iters = 3}),
             part<MultiStepLR>(o, MultiStepLROptions{.milestones = {10}}),
             part<LinearLR>(o, LinearLROptions{.start_factor = 0.2, .total_iters = 9})};
         return std::make_unique<SequentialLR>(o, parts, std::vector<std::int64_t>{4, 80});
       }},
  };
  return all;
}

}  // namespace lockstep::optim
