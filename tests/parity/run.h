// One case of the parity tests on one rank.
#pragma once

#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/nn/sync_batch_norm.h"
#include "lockstep/train/optim/sgd.h"
#include "lockstep/train/optim/zero_redundancy_optimizer.h"
#include "tests/parity/hooks.h"
#include "tests/parity/tensor_file.h"

namespace lockstep::parity {

struct Case {
  std::string model;  // Its file among the inputs.
  int steps = 4;
  int passes = 1;           // Backward passes per step; all but the last under no_sync().
  bool set_to_none = true;  // For zero_grad().
  double momentum = 0.9;
  double weight_decay = 1e-2;
  bool evaluate = false;               // Two forwards without gradients after each step.
  std::optional<JoinOptions> join;     // Rank r has r steps less.
  std::vector<std::string> delayed{};  // Averaged when the gradient of `hooked` is ready.
  std::string hooked{};
  std::string hook;       // The name of a communication hook: hooks.h.
  bool averaged = false;  // The parameters of all ranks, every second step after local steps begin.
  bool zero = false;      // Each rank has a share of the optimizer's state.
  bool in_backward = false;  // Backward makes the optimizer's steps.
  bool sync_bn = false;      // Batch normalization over all ranks.
  int replicas = 0;          // For DataParallel: replicas_run.h.
  DistributedDataParallelOptions options{};
  int threads = 1;
  int largest_world = 4;
  at::Device device = at::kCPU;
};

// With mean_over_samples: how many each of three ranks has in a step. One process has all of them.
constexpr std::int64_t kUneven[][3] = {{3, 1, 4}, {2, 4, 0}, {4, 0, 1}, {1, 3, 2}};

// Loss has a call operator for (ddp, x, y, step, rank).
template <class Module, class Loss>
class Run {
 public:
  template <class Held>
  Run(const Case& the_case, const Group& group, Tensors data, const Held& net)
      : case_(the_case), rank_(group.rank()), data_(std::move(data)) {
    load(*net);
    parallel::pointer_to(net)->to(case_.device);
    if (case_.sync_bn) {
      convert_sync_batchnorm(*parallel::pointer_to(net), group);
    }
    const auto parameters = net->named_parameters();
    auto options = case_.options;
    for (const auto& name : case_.delayed) {
      options.delay_all_reduce_named_params.emplace_back(name, parameters[name]);
      options.param_to_hook_all_reduce = parameters[case_.hooked];
    }
    ddp_.emplace(net, group, options);
    if (!case_.hook.empty()) {
      ddp_->register_comm_hook(hook_named(case_.hook, group));
    }
    make_optimizer(group);
    averager_.emplace(group,
                      PeriodicModelAveragerOptions{.period = 2, .warmup_steps = kStartLocal});
    torch::manual_seed(100 + static_cast<std::uint64_t>(rank_));
  }

  [[nodiscard]] DistributedDataParallelStats stats() const { return ddp_->stats(); }

  // What the rank leaves: every loss, and at the end all parameters, gradients and buffers.
  Tensors train() {
    at::set_num_threads(case_.threads);
    const auto steps = [this] {
      for (int step = 0; step < case_.steps - (case_.join ? rank_ : 0); ++step) {
        train(step);
        if (case_.evaluate) {
          evaluate(step);
        }
      }
    };
    if (case_.join) {
      join(steps);
    } else {
      steps();
    }
    at::set_num_threads(1);
    for (const auto& item : ddp_->named_parameters()) {
      left_[item.key()] = item.value();
      if (item.value().grad().defined()) {
        left_[item.key() + ".grad"] = item.value().grad();
      }
    }
    for (const auto& item : ddp_->named_buffers()) {
      left_[item.key()] = item.value();
    }
    if (!case_.options.bucket_cap_mb_list.empty()) {
      left_["buckets"] = at::full({1}, static_cast<std::int64_t>(stats().buckets), at::kLong);
    }
    if (sharded_ != nullptr) {
      leave_state(sharded_->consolidate_state_dict(0));
    }
    return left_;
  }

 private:
  using Sharded = optim::ZeroRedundancyOptimizer<optim::SGD>;

  void make_optimizer(const Group& group) {
    const optim::SGDOptions options{
        .lr = 0.05, .momentum = case_.momentum, .weight_decay = case_.weight_decay};
    if (case_.zero) {
      auto sharded = std::make_unique<Sharded>(group, ddp_->parameters(), options);
      sharded_ = sharded.get();
      own_optimizer_ = std::move(sharded);
    } else if (case_.in_backward) {
      own_optimizer_ = std::make_unique<optim::SGD>(ddp_->parameters(), options);
      ddp_->register_optimizer_in_backward(*own_optimizer_);
    } else {
      optimizer_.emplace(ddp_->parameters(), torch::optim::SGDOptions(options.lr)
                                                 .momentum(options.momentum)
                                                 .weight_decay(options.weight_decay));
    }
  }

  void zero_grad() {
    if (own_optimizer_) {
      own_optimizer_->zero_grad(case_.set_to_none);
    } else {
      optimizer_->zero_grad(case_.set_to_none);
    }
  }

  void make_step() {
    if (!own_optimizer_) {
      optimizer_->step();
    } else if (!own_optimizer_->steps_in_backward()) {
      own_optimizer_->step();
    }
  }

  // That of all parameters, which rank 0 has.
  void leave_state(const optim::OptimizerState& state) {
    for (const auto& [number, tensors] : state.state) {
      if (rank_ == 0) {
        left_["state." + std::to_string(number)] = tensors.at("momentum_buffer");
      }
    }
  }

  // Rank 0's values must win, except for what is ignored.
  void load(const torch::nn::Module& net) const {
    const at::NoGradGuard no_grad;
    for (const auto& named : {net.named_parameters(), net.named_buffers()}) {
      for (const auto& item : named) {
        item.value().copy_(data_.at(item.key()));
        if (rank_ > 0) {
          item.value().fill_(rank_ / 8.0);
        }
      }
    }
  }

  at::Tensor part(const std::string& name, int i) const {
    auto rows = data_.at(name)[i][rank_];
    if (case_.options.mean_over_samples) {
      rows = rows.narrow(0, 0, kUneven[i][rank_]);
    }
    return rows.to(case_.device);
  }

  void train(int step) {
    zero_grad();
    for (int i = 0; i < case_.passes; ++i) {
      const int draw = step * case_.passes + i;
      const auto backward = [&] {
        const auto loss = Loss()(*ddp_, part("x", draw), part("y", draw), step, rank_);
        loss.backward();
        left_["loss." + std::to_string(step) + "." + std::to_string(i)] = loss.detach();
      };
      if (i + 1 < case_.passes) {
        const auto no_sync = ddp_->no_sync();
        backward();
      } else {
        backward();
      }
    }
    make_step();
    if (case_.averaged) {
      averager_->average_parameters(ddp_->parameters());
    }
  }

  // Whether it threw is a part of what the rank leaves.
  template <class Steps>
  void join(const Steps& steps) {
    bool threw = false;
    try {
      ddp_->join(steps, *case_.join);
    } catch (const UsageError& error) {
      if (!case_.join->throw_on_early_termination ||
          std::string(error.what()).find("no more inputs") == std::string::npos) {
        throw;
      }
      threw = true;
    }
    if (case_.join->throw_on_early_termination) {
      left_["threw"] = at::full({1}, threw ? 1 : 0, at::kLong);
    }
  }

  void evaluate(int step) {
    if constexpr (requires(Module& module, at::Tensor x) { module.forward(x); }) {
      const at::NoGradGuard no_grad;
      ddp_->eval();
      for (int i = 0; i < 2; ++i) {
        left_["eval." + std::to_string(step) + "." + std::to_string(i)] = (*ddp_)(part("x", i));
      }
      ddp_->train();
    }
  }

  Case case_;
  int rank_;
  Tensors data_;
  Tensors left_;
  std::unique_ptr<optim::SGD> own_optimizer_;  // It outlives the module that makes its steps.
  Sharded* sharded_ = nullptr;                 // The same, if it is one.
  std::optional<DistributedDataParallel<Module>> ddp_;
  std::optional<torch::optim::SGD> optimizer_;
  std::optional<PeriodicModelAverager> averager_;
};

struct LossOfOutputs {
  template <class Ddp>
  at::Tensor operator()(Ddp& ddp, const at::Tensor& x, const at::Tensor& y, int, int) const {
    return torch::nn::functional::cross_entropy(ddp(x), y);
  }
};

struct LossOfBranch {
  template <class Ddp>
  at::Tensor operator()(Ddp& ddp, const at::Tensor& x, const at::Tensor& y, int step,
                        int rank) const {
    std::string branch = (step + rank) % 2 == 0 ? "left" : "right";
    if (step == 2) {
      branch = rank == 0 ? "rare" : "";
    }
    return torch::nn::functional::cross_entropy(ddp(x, branch).first, y);
  }
};

struct LossOfTwoForwards {
  template <class Ddp>
  at::Tensor operator()(Ddp& ddp, const at::Tensor& x, const at::Tensor& y, int, int) const {
    const auto first = ddp(x);
    return torch::nn::functional::cross_entropy(first + ddp(x.flip(0)), y);
  }
};

}  // namespace lockstep::parity
