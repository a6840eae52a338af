// Adam and AdamW; on the CPU with the bits of torch.optim's.
#pragma once

#include <optional>
#include <utility>

#include "lockstep/train/optim/optimizer.h"

namespace lockstep::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
  // One kernel for all parameters; by default on GPUs alone. Results differ from those of
  // Python's default in the last bits, and a GPU gets the learning rate as float32.
  std::optional<bool> fused = {};
};

class Adam : public Optimizer {
 public:
  using Options = AdamOptions;

  // Throw UsageError where torch.optim.Adam throws ValueError, and for complex parameters.
  explicit Adam(std::vector<at::Tensor> params, const AdamOptions& options = {});
  explicit Adam(const std::vector<ParamGroup<AdamOptions>>& groups);

  [[nodiscard]] double lr(std::size_t group = 0) const override {
    require_group("lr", group);
    return options_[group].lr;
  }

 protected:
  // Decoupled: the weights decay by themselves (AdamW), not through the gradient.
  Adam(const char* name, const std::vector<ParamGroup<AdamOptions>>& groups, bool decoupled);

 private:
  [[nodiscard]] OptionValues options_of(std::size_t group) const override;
  void set_options(std::size_t group, const OptionValues& values) override;
  void set_lr_option(std::size_t group, double lr) override { options_[group].lr = lr; }
  [[nodiscard]] std::vector<std::string> state_names(const OptionValues& values) const override;
  void require_sensible(const AdamOptions& options) const;
  void make_state(std::size_t index, const at::Tensor& param, bool amsgrad, bool fused);
  [[nodiscard]] std::optional<bool> fused(std::size_t group) const override {
    return options_[group].fused;
  }
  void step_one_by_one(std::size_t group) override;
  // Steps are counted in tensors, which fused kernels read on the GPU: a recorded step goes on
  // counting. Without them they are counted on the host, as in Python.
  void step_fused(std::size_t group, const LossScale& scale) override;

  std::vector<AdamOptions> options_;
  bool decoupled_;
};

// As AdamOptions, but for the weight decay.
struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;
  std::optional<bool> fused = {};
};

class AdamW : public Adam {
 public:
  using Options = AdamWOptions;

  explicit AdamW(std::vector<at::Tensor> params, const AdamWOptions& options = {});
  explicit AdamW(const std::vector<ParamGroup<AdamWOptions>>& groups);
};

}  // namespace lockstep::optim
