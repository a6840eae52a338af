// Decides when a gradient is complete, given what the user says about which parameters take part.
//
// In a synchronized step: begin(), then hooked() for every hook that autograd fires, then end(); in
// between the reducer calls all_started() when the last bucket is on its way, and took_part() when
// the sums are back.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/autograd/gradient_hooks.h"

namespace lockstep::parallel {

enum class ReadinessKind {
  kAll,          // Every parameter takes part in every step.
  kFindUnused,   // A walk through the graph finds out in each step which do.
  kStaticGraph,  // Always the same do, as often as in the first step.
};

class GradientReadiness {
 public:
  using Ready = c10::function_ref<void(std::size_t parameter)>;

  static std::unique_ptr<GradientReadiness> make(ReadinessKind kind, const Group& group,
                                                 const std::vector<Parameter>& parameters,
                                                 const GradientHooks& hooks);
  virtual ~GradientReadiness() = default;

  // A forward has ended and made these outputs.
  virtual void begin(const std::vector<at::Tensor>& outputs) = 0;
  // autograd reached a parameter, in this step or in one that is not synchronized.
  virtual void passed(std::size_t parameter, bool has_gradient) = 0;
  // The same in this step: calls `ready` for each gradient that is complete now. Throws UsageError
  // if the promise of kStaticGraph does not hold.
  virtual void hooked(std::size_t parameter, Ready ready) = 0;
  // Backward is over; calls `ready` for what can be known only now.
  virtual void end(Ready ready) = 0;
  virtual void all_started() = 0;
  // Whether any rank has a gradient for this parameter. If not, `.grad` stays as it is.
  [[nodiscard]] virtual bool took_part(std::size_t parameter) = 0;
  // All gradients are written.
  virtual void finish() = 0;

  // In place of all_started(), on a rank that takes part in a step with zeros, without a backward.
  // Its sums are started; finish() follows.
  virtual void shadow() = 0;

  // The order in which gradients became complete, known after a whole step. Buckets can then be
  // planned anew by this order.
  [[nodiscard]] virtual const std::vector<std::size_t>* order() const = 0;
  // Whether a step can be recorded as a CUDA graph: nothing in it waits for the GPU.
  [[nodiscard]] virtual bool is_recordable() const = 0;
  // Whether outputs must report where a backward pass begins, and pass undefined gradients on.
  [[nodiscard]] virtual bool needs_sink() const = 0;
  // The advice in the error about parameters without a gradient.
  [[nodiscard]] virtual const char* advice() const = 0;
};

}  // namespace lockstep::parallel
