// Stochastic gradient descent, with the bits of torch.optim.SGD.
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
  // One kernel for all parameters; by default on GPUs alone, since on the CPU its bits are not
  // those of Python's default.
  std::optional<bool> fused = {};
};

class SGD : public Optimizer {
 public:
  // Throw UsageError where torch.optim.SGD throws ValueError.
  explicit SGD(std::vector<at::Tensor> params, const SGDOptions& options = {});
  explicit SGD(std::vector<ParamGroup<SGDOptions>> groups);

  void step() override;
  [[nodiscard]] double lr(std::size_t group = 0) const override { return options_.at(group).lr; }

 private:
  [[nodiscard]] OptionValues options_of(std::size_t group) const override;
  void take_options(std::size_t group, const OptionValues& values) override;
  void take_lr(std::size_t group, double lr) override { options_.at(group).lr = lr; }
  void require_sensible(const SGDOptions& options) const;
  void step_one_by_one(std::size_t group);
  void step_fused(std::size_t group);

  std::vector<SGDOptions> options_;
};

}  // namespace lockstep::optim
