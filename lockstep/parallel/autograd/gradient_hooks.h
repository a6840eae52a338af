// Tells when autograd has accumulated a parameter's gradient, and when a backward pass is over.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/parallel/module_state.h"

namespace lockstep::parallel {

// Hooks on the parameters for as long as it lives.
class GradientHooks {
 public:
  // `ready` runs in the thread that accumulated a parameter's gradient; those of a module on
  // several devices run at the same time. `made` is what the graph computed and autograd still
  // holds; it may be undefined, and may share its memory with `.grad`. What it throws comes out of
  // backward().
  using Ready = std::function<void(std::size_t parameter, const at::Tensor& made)>;
  GradientHooks(const std::vector<Parameter>& parameters, Ready ready);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // A parameter that gets data of another dtype or device also gets another accumulator, which the
  // hook is not on; this hooks that one. Returns a text that names a parameter that was moved for
  // good, what it was and what it became; empty if there is none.
  [[nodiscard]] std::string follow();
  // On a GPU autograd accumulates on the stream that was current when a parameter's accumulator was
  // made, and the hooks keep accumulators alive. This makes those of other streams anew on the
  // current one: a stream that is captured must not be mixed with one that is not.
  void use_current_streams();

  // The parameters, in ascending order, that no gradient can reach from these outputs.
  [[nodiscard]] std::vector<std::size_t> unreachable_from(
      const std::vector<at::Tensor>& outputs) const;

 private:
  struct Hooked;
  void hook(std::size_t parameter);

  std::shared_ptr<const Ready> ready_;
  std::vector<Hooked> hooked_;
};

// To be called inside a backward pass. Returns a number that identifies the pass.
int current_backward();
// Whether that pass computes all gradients there are, unlike one of autograd::grad().
bool backward_is_for_all();
// Runs `done` when the pass that this thread works for has computed all gradients, before
// backward() returns. What it throws comes out of backward().
void when_backward_is_done(std::function<void()> done);
// In `done`: whether that pass was started from inside another one, which goes on.
bool backward_is_nested();

}  // namespace lockstep::parallel
