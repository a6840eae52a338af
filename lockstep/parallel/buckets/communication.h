// Sums buckets over the ranks while backward goes on, and measures what that takes.
#pragma once

#include <c10/core/Stream.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <unordered_map>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/buckets/gradient_bucket.h"
#include "lockstep/parallel/hooks/comm_hook.h"
#include "lockstep/parallel/statistics.h"

namespace lockstep::parallel {

class Communication {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  explicit Communication(const Group& group) : group_(group) {}

  // Memory in which the group's backend sums without a copy, if it has such memory.
  [[nodiscard]] at::Tensor allocate(std::int64_t elements, at::TensorOptions options) const;

  // Buckets that are made from now on go through the hook instead of being averaged. Throws
  // UsageError if there is one already, or if gradients are sparse.
  void use(CommHook hook, const std::vector<Parameter>& parameters);
  [[nodiscard]] bool has_hook() const { return hook_ != nullptr; }

  // What becomes of the bucket at this position, which has these parameters.
  [[nodiscard]] std::unique_ptr<Reduction> reduction_for(
      const std::vector<Parameter>& parameters, const GradBucket::Position& position = {}) const;
  [[nodiscard]] bool leaves_gradients(const Parameter& parameter) const {
    return !parameter.sparse &&
           (has_hook() || Average::can_divide_in_sum(group_, parameter.tensor));
  }

  // Throws UsageError if there is a hook, or if sums of these parameters' gradients cannot be
  // recorded as a part of a CUDA graph.
  void require_recordable(const std::vector<Parameter>& parameters) const;

  // Starts to sum the next bucket of this step, if it has contents; all its gradients must be in
  // it. On a GPU this is ordered after the current work of the current stream. The bucket is filled
  // on a separate stream and summed on one of the backend's, so backward need not wait for either.
  void start(GradientBucket& bucket);
  // The same with zeros instead of the bucket's contents, which stay.
  void start_zeros(GradientBucket& bucket);
  // Waits for the i-th sum that was started. On a GPU the current stream waits, the host does not.
  // Throws what the backend throws.
  void wait_for(std::size_t i);

  // Ends the step; the next bucket is the first of the next step.
  CommunicationTimes finish();

 private:
  struct Started {
    c10::intrusive_ptr<c10d::Work> work;
    at::Tensor contents;
    std::vector<at::Tensor> copied;  // What another stream may still read.
    Clock::time_point at;
    std::shared_ptr<std::atomic<Clock::time_point>>
        done;  // Where the work does not measure itself.
  };
  [[nodiscard]] const c10::Stream& filling_stream(c10::Device device);
  [[nodiscard]] Seconds running_time() const;

  Group group_;
  CommHook hook_;
  std::unordered_map<c10::Device, c10::Stream> streams_;  // Where buckets are filled, by GPU.
  std::vector<Started> started_;
  Seconds waiting_{0};
};

}  // namespace lockstep::parallel
