// Ranks whose inputs end at different times: what they tell each other, with PyTorch's messages, so
// that ranks in Python can take part. How ranks join a job: comm/init_process_group.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "lockstep/comm/group.h"

namespace lockstep {

struct JoinOptions {
  // Gradients are divided by the number of all ranks, as ever, so each sample counts the same.
  // False: by that of the ranks that still have inputs.
  bool divide_by_initial_world_size = true;
  // As soon as a rank has no more inputs, all ranks throw UsageError. For networks with collectives
  // of their own, such as SyncBatchNorm.
  bool throw_on_early_termination = false;
};

namespace parallel {

// A rank is active while it has inputs. All functions are collectives.
class Join {
 public:
  // Tensors travel on this device.
  Join(const Group& group, at::Device device, const JoinOptions& options);

  // An active rank begins a forward. Throws UsageError if a rank has no inputs and that is to be an
  // error.
  void begin_forward();
  // The number by which this step's gradients are divided. Waits for what begin_forward() started.
  [[nodiscard]] int divisor();
  // The same for a rank without inputs: how many ranks are active.
  [[nodiscard]] int shadow_forward();

  // The highest rank that is a candidate.
  [[nodiscard]] int common_rank(bool candidate) const;
  // An active rank tells those without inputs whether this step's backward is synchronized. It does
  // not wait: what the others say is of no use to it.
  void tell_synchronized(bool says_so);
  // The same for a rank without inputs: what active ranks say.
  [[nodiscard]] bool others_synchronize() const;

 private:
  [[nodiscard]] at::Tensor filled(double value, at::ScalarType type = at::kFloat) const;

  Group group_;
  at::Device device_;
  JoinOptions options_;
  at::Tensor active_;  // Their number, when count_ is done.
  std::optional<Work> count_;
  at::Tensor answer_;  // What told_ sums.
  std::optional<Work> told_;
};

}  // namespace parallel
}  // namespace lockstep
