// Finds gradients that are infinite or NaN while it is still known whose they are.
//
// The average over ranks makes one rank's NaN everybody's. So each rank looks at its own gradients
// when backward() makes them, before they are reduced.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/amp/grad_scaler.h"

namespace lockstep {
template <class Module>
class DistributedDataParallel;
}

namespace lockstep::amp {

enum class NonFinitePolicy {
  kAbort,  // check() throws.
  kSkip,   // check() says so, on all ranks; the caller leaves out the step.
};

struct GradientCheckOptions {
  int rank = 0;
  NonFinitePolicy policy = NonFinitePolicy::kAbort;
};

// The least and the greatest value of a gradient, on its device; NaN if one is among them.
struct GradientRange {
  at::Tensor low;
  at::Tensor high;
};

//   GradientCheck check(ddp, {.policy = NonFinitePolicy::kSkip});
//   loss.backward();
//   if (check.check(step)) {
//     optimizer.step();
//   }
//
// Hooks that stay with the parameters until this is gone. Each costs one pass over the
// gradient, on its device; nothing waits for the device but check(). Replays of a recorded step run
// no hooks, so such a step is refused with UsageError, and GraphedStep runs it eagerly.
class GradientCheck {
 public:
  // Throws UsageError if no parameter takes a gradient.
  explicit GradientCheck(const torch::nn::Module& model, const GradientCheckOptions& options = {});
  // Checks the network that `ddp` wraps, which must live longer. The rank is that of its group, and
  // when kAbort throws, the errors of the other ranks say why this one is gone.
  template <class Module>
  explicit GradientCheck(DistributedDataParallel<Module>& ddp, GradientCheckOptions options = {})
      : GradientCheck(*ddp.module(), of_rank(options, ddp.group().rank())) {
    on_abort_ = [&ddp](const std::string& reason) { ddp.report_failure(reason); };
  }
  ~GradientCheck();
  GradientCheck(const GradientCheck&) = delete;
  GradientCheck& operator=(const GradientCheck&) = delete;

  // After backward(), on all ranks; looks at the gradients since the last call, and forgets them.
  // True if they are finite. If not: with a `scaler` that can still back off (its scale is more
  // than 1) it is true too, because such overflows belong to its search, and it skips the step
  // itself. Otherwise kAbort throws UsageError with rank, step and the first such parameter. Other
  // ranks do not throw, so a rank that catches it must end. kSkip returns false if .grad, which DDP
  // averaged, is not finite: that is the same on all ranks, and all of them leave out the step.
  [[nodiscard]] bool check(std::int64_t step, const GradScaler* scaler = nullptr);

  // What the last check() found: the first parameter, in the network's order, with a bad gradient
  // on this rank. With kSkip, if this rank has none, the first one with a bad average. Nothing if
  // all was finite.
  [[nodiscard]] const std::optional<std::string>& first() const { return first_; }

  // The first parameter whose gradient, as it is now, is infinite or NaN.
  [[nodiscard]] static std::optional<std::string> first_of(const torch::nn::Module& model);

 private:
  struct Watched {
    std::string name;
    at::Tensor param;
    unsigned hook = 0;
    GradientRange range = {};  // Undefined before the first gradient.
  };

  static GradientCheckOptions of_rank(GradientCheckOptions options, int rank) {
    options.rank = rank;
    return options;
  }

  GradientCheckOptions options_;
  std::function<void(const std::string& reason)> on_abort_;
  std::vector<Watched> watched_;
  std::optional<std::string> first_;
};

}  // namespace lockstep::amp
