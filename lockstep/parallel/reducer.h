// Averages gradients over the ranks while backward computes the rest of them.
//
// The parts are elsewhere: which gradients travel together (bucket_plan), where they lie
// (bucket_set), when one is complete (gradient_hooks, usage) and how they travel
// (communication). This decides what happens when.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/bucket_plan.h"
#include "lockstep/parallel/bucket_set.h"
#include "lockstep/parallel/communication.h"
#include "lockstep/parallel/gradient_hooks.h"
#include "lockstep/parallel/module_state.h"
#include "lockstep/parallel/step_guard.h"
#include "lockstep/parallel/usage.h"

namespace lockstep::parallel {

struct ReducerOptions {
  UsageKind usage = UsageKind::kAll;
  BucketSet::Options buckets;
  // Bytes of the buckets before and after the order of the gradients is known.
  std::vector<std::size_t> first_limits;
  std::vector<std::size_t> limits{kFirstBucketBytes, kBucketBytes};
};

// Made by std::make_shared: a backward pass that ends later than the reducer finds it gone.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  // The guard outlives it. `finished` runs at the end of every synchronized backward, with what its
  // communication took.
  Reducer(const Group& group, std::vector<Parameter> parameters, const ReducerOptions& options,
          StepGuard& guard, std::function<void(const CommunicationTimes&)> finished);

  // Before a forward with gradients. Once, after the first whole step, it plans the buckets anew,
  // with collectives. Throws UsageError if a step failed before: this rank may not go on. So it
  // does if a parameter was moved since, naming it: its gradients would not be averaged.
  // In a step that is recorded as a graph it does not plan: it throws UsageError before that.
  void before_forward();
  // The next backward pass is to be synchronized; its forward made these outputs. When it returns,
  // every `.grad` is the average. It throws UsageError, naming the parameters, if some got no
  // gradient, and PeerError if a rank is gone or late.
  void expect_backward(const std::vector<at::Tensor>& outputs);
  // Outputs go through a node that calls this when their backward pass begins.
  [[nodiscard]] bool needs_sink() const { return usage_->needs_sink(); }
  void backward_begins();
  // A backward pass comes through outputs of a synchronized forward of this step. If that step is
  // over, gradients of the pass would stay on this rank: when the first one comes, backward()
  // throws UsageError.
  void backward_passes_outputs_of(std::uint64_t step);

  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<GradientBucket>& buckets() const { return buckets_.all(); }

 private:
  void replan();
  void keep_memory_of_gradients() const;
  void on_hook(std::size_t parameter, const at::Tensor& made);
  void watch_this_backward();
  void mark_ready(std::size_t parameter);
  void on_backward_done();
  void write_back();
  void require_in_step() const;
  [[noreturn]] void reject_late(std::size_t parameter) const;
  void abandon_step();
  void require_recordable() const;
  template <class Function>
  void in_step(Function&& function);
  [[noreturn]] void reject_unfinished() const;
  [[nodiscard]] std::vector<GradientInfo> infos(const std::vector<std::size_t>& order) const;

  Group group_;
  std::vector<Parameter> parameters_;
  ReducerOptions options_;
  StepGuard& guard_;
  std::function<void(const CommunicationTimes&)> finished_;

  std::mutex mutex_;  // Hooks of a module on several devices run in several threads.
  Communication communication_;
  BucketSet buckets_;
  bool planned_anew_ = false;

  std::string failed_;          // Why a step did; empty while all is well.
  std::uint64_t steps_ = 0;     // That are over.
  std::uint64_t late_for_ = 0;  // The step whose outputs the pass that runs comes through too late.

  // Of the step that runs.
  bool expecting_ = false;
  bool begun_ = false;     // A gradient was ready.
  bool recorded_ = false;  // As a graph: nothing of it runs, so it can fail and be done again.
  int backward_ = -1;      // The pass whose end is awaited.
  std::vector<bool> ready_;
  std::vector<std::size_t> pending_;  // Gradients that each bucket waits for.
  std::size_t next_ = 0;              // Buckets are started in order.

  // Usage looks at the graph through the hooks, so it ends first; no hook runs then.
  std::unique_ptr<GradientHooks> hooks_;
  std::unique_ptr<Usage> usage_;
};

}  // namespace lockstep::parallel
