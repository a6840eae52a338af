// Averages gradients over the ranks while backward computes the rest of them.
//
// The parts are elsewhere: which gradients travel together (bucket_plan), where they lie
// (bucket_set), when one is complete (gradient_hooks, gradient_readiness) and how they travel
// (communication). This decides what happens when.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/autograd/gradient_hooks.h"
#include "lockstep/parallel/autograd/gradient_readiness.h"
#include "lockstep/parallel/buckets/bucket_plan.h"
#include "lockstep/parallel/buckets/bucket_set.h"
#include "lockstep/parallel/buckets/communication.h"
#include "lockstep/parallel/module_state.h"
#include "lockstep/parallel/step_errors.h"
#include "lockstep/parallel/step_state.h"

namespace lockstep::parallel {

struct ReducerOptions {
  ReadinessKind readiness = ReadinessKind::kAll;
  BucketSet::Options buckets;
  // Instead of that in `buckets`, if there is a communication hook: it runs for one rank, too.
  GradientBucket::Mode mode_with_hook = GradientBucket::Mode::kViews;
  // Sizes of the buckets before and after the order of the gradients is known.
  std::vector<std::size_t> first_limits;
  std::vector<std::size_t> limits{kFirstBucketBytes, kBucketBytes};
};

// Must be made by std::make_shared, so that a backward pass that outlives the reducer can tell.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  // `errors` must outlive it. `finished` runs at the end of every synchronized backward and gets
  // the times of its communication.
  Reducer(const Group& group, std::vector<Parameter> parameters, const ReducerOptions& options,
          StepErrors& errors, std::function<void(const CommunicationTimes&)> finished);

  // What the hook returns becomes the gradients, instead of their average. Throws UsageError if
  // there is a hook, if a step was begun, or if gradients are sparse.
  void register_comm_hook(CommHook hook);

  // At the end of a synchronized backward, `step` makes an optimizer's step of each bucket's
  // parameters as soon as their gradients are there, while later buckets are still being summed,
  // and at last that of `others`. Throws UsageError in a step that has begun.
  using StepParameters = std::function<void(const std::vector<at::Tensor>& parameters)>;
  void step_in_backward(StepParameters step, std::vector<at::Tensor> others);

  // To be called before a forward with gradients. Once, after the first whole step, it plans the
  // buckets anew, with collectives. Throws UsageError if an earlier step failed, because this rank
  // must not go on; or if a parameter was moved since, because its gradients would not be averaged.
  // It does not plan in a step that is recorded as a graph, but throws UsageError.
  void before_forward();
  // The next backward pass will be synchronized; its forward made these outputs. When backward()
  // returns, every `.grad` is the average. backward() throws UsageError that names the parameters
  // that got no gradient, if there are any, and PeerError if a rank is gone or late.
  void expect_backward(const std::vector<at::Tensor>& outputs);
  // Outputs go through a node that calls this when their backward pass begins.
  [[nodiscard]] bool needs_sink() const { return readiness_->needs_sink(); }
  void backward_begins();
  // A backward pass goes through outputs of the synchronized forward of this step, whose gradients
  // may all come from passes inside it. If that step is over, gradients of the pass would stay on
  // this rank, so backward() throws UsageError when the first one is ready.
  void backward_passes_outputs_of(std::uint64_t step);

  // For ranks whose inputs differ in number. This rank adds its gradients divided by this number,
  // instead of that of the ranks.
  void set_divisor(double divisor) { buckets_.set_divisor(divisor); }
  // This rank has no inputs in a step that the others synchronize: it adds zeros, and its `.grad`
  // stay as they are.
  void shadow_backward();
  [[nodiscard]] bool can_shadow() const {
    return options_.readiness != ReadinessKind::kStaticGraph;
  }

  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<GradientBucket>& buckets() const { return buckets_.all(); }

 private:
  void make_first_buckets();
  void replan();
  void on_hook(std::size_t parameter, const at::Tensor& made);
  void watch_this_backward();
  void watch_for_nested_backwards();
  [[nodiscard]] bool outer_is_over();
  void mark_ready(std::size_t parameter);
  void on_backward_done();
  void write_back();
  void write_back(GradientBucket& bucket);
  void require_in_step() const;
  [[noreturn]] void reject_late(std::size_t parameter) const;
  void abandon_step();
  void require_recordable() const;
  template <class Function>
  void in_step(Function&& function);
  [[noreturn]] void reject_unfinished() const;

  Group group_;
  std::vector<Parameter> parameters_;
  ReducerOptions options_;
  StepErrors& errors_;
  std::function<void(const CommunicationTimes&)> finished_;
  StepParameters step_parameters_;
  std::vector<at::Tensor> others_;  // Which it steps, and which are in no bucket.

  std::mutex mutex_;  // Hooks of a module on several devices run in several threads.
  Communication communication_;
  BucketSet buckets_;
  bool planned_anew_ = false;

  std::string failed_;          // Why a step did; empty while all is well.
  std::uint64_t steps_ = 0;     // Finished ones.
  std::uint64_t late_for_ = 0;  // The finished step whose outputs this backward uses; 0: none.

  StepState step_;
  // An outer pass is watched: the step ends with it, and not with the passes inside it.
  bool outer_is_watched_ = false;
  bool recorded_ = false;  // As a graph: nothing of it runs, so a failed one can be done again.

  // GradientReadiness looks at the graph through the hooks, so it ends first; no hook runs then.
  std::unique_ptr<GradientHooks> hooks_;
  std::unique_ptr<GradientReadiness> readiness_;
};

}  // namespace lockstep::parallel
