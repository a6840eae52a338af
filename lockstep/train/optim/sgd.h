// Stochastic gradient descent; on the CPU with the bits of torch.optim.SGD.
#pragma once

#include <optional>

#include "lockstep/train/optim/optimizer.h"

namespace lockstep::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
  // One kernel for all parameters; by default on GPUs alone. Its bits are not those of Python's
  // default. On a GPU the learning rate is a float then.
  std::optional<bool> fused = {};
};

class SGD : public Optimizer {
 public:
  using Options = SGDOptions;

  // Throw UsageError where torch.optim.SGD throws ValueError.
  explicit SGD(std::vector<at::Tensor> params, const SGDOptions& options = {});
  explicit SGD(const std::vector<ParamGroup<SGDOptions>>& groups);

  [[nodiscard]] double lr(std::size_t group = 0) const override {
    require_group("lr", group);
    return options_[group].lr;
  }

 private:
  [[nodiscard]] OptionValues options_of(std::size_t group) const override;
  void set_options(std::size_t group, const OptionValues& values) override;
  void set_lr_option(std::size_t group, double lr) override { options_[group].lr = lr; }
  [[nodiscard]] std::vector<std::string> state_names(
      const OptionValues& /*values*/) const override {
    return {};  // A parameter that has had no step with momentum has none.
  }
  void require_sensible(const SGDOptions& options) const;
  [[nodiscard]] std::optional<bool> fused(std::size_t group) const override {
    return options_[group].fused;
  }
  void step_one_by_one(std::size_t group) override;
  void step_fused(std::size_t group, const LossScale& scale) override;
  struct FusedStep {
    const LossScale& scale;
    bool is_first;
  };
  void update_fused(std::size_t group, const WithGradient& part, const FusedStep& step);

  std::vector<SGDOptions> options_;
};

}  // namespace lockstep::optim
