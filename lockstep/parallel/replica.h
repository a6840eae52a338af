// One rank's copy of a module among those of the other ranks: what DistributedDataParallel does
// apart from calling the module.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/checks/replica_check.h"
#include "lockstep/parallel/hooks/comm_hook.h"
#include "lockstep/parallel/join/join.h"
#include "lockstep/parallel/join/sample_count.h"
#include "lockstep/parallel/module_state.h"
#include "lockstep/parallel/statistics.h"
#include "lockstep/parallel/step_errors.h"

namespace torch::nn {
class Module;
}
namespace lockstep::device {
class Graph;
}

namespace lockstep {

// Names and defaults are PyTorch's, except that gradient_as_bucket_view is on.
struct DistributedDataParallelOptions {
  // The GPU of a module that is on one GPU: inputs are moved there. At most one entry.
  std::vector<int> device_ids;
  // The GPU to which outputs of such a module are moved; by default that of device_ids.
  std::optional<int> output_device;
  // MiB. If it is set, there is no small first bucket, as in PyTorch.
  std::optional<double> bucket_cap_mb;
  // MiB of the first, second, ... bucket of a kind, the last one for all others.
  std::vector<double> bucket_cap_mb_list;
  // Parameters need not take part in every step. Costs a walk through the graph in each step.
  bool find_unused_parameters = false;
  // The same parameters take part in every step, equally often.
  bool static_graph = false;
  // `.grad` is a view of its bucket. Otherwise it is a separate tensor, and gradients take twice
  // the memory.
  bool gradient_as_bucket_view = true;
  // With gradient_as_bucket_view, on the CPU: gradients are allocated in their buckets where
  // possible, else copied there. The environment variable LOCKSTEP_ALLOCATE_IN_BUCKETS=0 turns this
  // off for a process.
  bool allocate_in_buckets = true;
  // Buffers are set to rank 0's at the beginning of every forward that follows a synchronized one,
  // and of the first forward in each call of a GraphedStep.
  bool forward_sync_buffers = true;
  // When the module is wrapped, compares the models and takes rank 0's parameters and buffers.
  // Without it the ranks must start with equal ones.
  bool init_sync = true;
  // Names of parameters and buffers that are left alone.
  std::set<std::string> parameters_to_ignore;
  // These parameters have no place in the buckets: in every backward, also under no_sync(), their
  // gradients are averaged together when that of param_to_hook_all_reduce is ready. That one comes
  // after theirs, and need not be the module's. Set both or none.
  parallel::NamedTensors delay_all_reduce_named_params;
  at::Tensor param_to_hook_all_reduce;
  // Gradients become those of the mean over the samples of all ranks, instead of the mean of the
  // ranks' means: a rank counts as much as its batch has samples, and one with an empty batch adds
  // zeros. The samples are the first dimension of the first tensor that forward gets, or what
  // set_samples() says.
  bool mean_over_samples = false;
  // Sums gradients also in a group of one rank, where there is nothing to sum: to measure on one
  // GPU what the reduction costs.
  bool reduce_alone = false;
  // Compares the replicas' parameters in every so many steps; 0: never.
  std::uint64_t check_replicas_every = 0;
};

namespace parallel {

class DelayedGradients;
class Reducer;
struct Delayed;
struct ReducerOptions;

class Replica {
 public:
  // Throws UsageError for a module or options that cannot work, on all ranks if their models
  // differ.
  Replica(const torch::nn::Module& module, const Group& group,
          const DistributedDataParallelOptions& options);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  void register_comm_hook(CommHook hook);

  // An optimizer of these parameters, and what makes its step of some of them.
  struct SteppedInBackward {
    std::vector<at::Tensor> parameters;
    std::function<void(const std::vector<at::Tensor>& parameters)> step;
  };
  // Throws UsageError, and changes nothing, if there is one already, or parameters are delayed.
  void register_optimizer_in_backward(SteppedInBackward optimizer);

  // From begin_join() to end_join(), ranks may have different numbers of inputs. A rank whose
  // inputs have ended calls shadow_others(). It returns when no rank has inputs left; all ranks
  // then have the model of a rank that had the most.
  void begin_join(const JoinOptions& options);
  void shadow_others();
  void end_join() noexcept;

  // How many samples the next forward's loss is the mean of; the last call counts. Needed where
  // counts_samples().
  [[nodiscard]] bool counts_samples() const { return count_.has_value(); }
  void set_samples(double samples) { samples_ = samples; }
  [[nodiscard]] bool knows_samples() const { return samples_.has_value(); }

  void before_forward();
  // Tells the others why this rank will be missing.
  void fail(const std::string& reason) noexcept { errors_.fail(reason); }
  // May replace outputs by others that behave the same.
  void after_forward(const std::vector<at::Tensor*>& outputs);

  // False: gradients accumulate on this rank alone. Shared with NoSync objects, which change it for
  // a while and may outlive the replica.
  [[nodiscard]] const std::shared_ptr<bool>& synchronizing() const { return synchronizing_; }

  // Where inputs are moved to, and outputs.
  [[nodiscard]] std::optional<at::Device> input_device() const { return input_device_; }
  [[nodiscard]] std::optional<at::Device> output_device() const { return output_device_; }

  [[nodiscard]] const Group& group() const { return group_; }
  [[nodiscard]] DistributedDataParallelStats stats() const;

 private:
  using Clock = std::chrono::steady_clock;

  void choose_devices(const DistributedDataParallelOptions& options);
  void require_known_parameters() const;
  void remember(const std::vector<Parameter>& parameters);
  void delay(const Delayed& delayed, const ReducerOptions& chosen);
  void make_reducer(std::vector<Parameter> parameters,
                    const DistributedDataParallelOptions& options, const ReducerOptions& chosen);
  struct Broadcast {
    std::size_t bytes = std::size_t{250} << 20;  // At once; Python DDP's.
    int root = 0;
  };
  void broadcast(const std::vector<at::Tensor>& tensors, const Broadcast& how) const;
  void sync_buffers(bool has_inputs);
  void shadow_step();
  void count_samples(std::optional<double> samples);
  void finish_step(const CommunicationTimes& times);
  void count_step();

  const torch::nn::Module& module_;
  Group group_;
  std::set<std::string> ignored_;
  std::unordered_set<const void*> known_;  // Parameters that are averaged, or ignored.
  std::optional<at::Device> input_device_;
  std::optional<at::Device> output_device_;
  bool forward_sync_buffers_;
  bool steps_in_backward_ = false;  // There is an optimizer that does.
  std::optional<Join> join_;
  std::optional<SampleCount> count_;
  std::optional<double> samples_;  // For the next forward.
  std::shared_ptr<bool> synchronizing_ = std::make_shared<bool>(true);
  bool buffers_are_due_ = true;  // The last forward was a synchronized one.
  StepErrors errors_;
  ReplicaCheck check_;
  device::Graph* graph_ = nullptr;  // The graph recording this step, or null.
  std::uint64_t last_call_ = 0;     // Of a GraphedStep: the number of that with the last forward.
  DistributedDataParallelStats stats_;
  Clock::time_point forward_begun_;
  Clock::time_point forward_done_;
  std::shared_ptr<DelayedGradients> delayed_;  // Null: none are.
  std::shared_ptr<Reducer> reducer_;           // Null: all are delayed.
};

}  // namespace parallel
}  // namespace lockstep
