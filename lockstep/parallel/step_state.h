// How far the synchronized step of a reducer is: which gradients are ready, which buckets may
// start.
//
//   kIdle --expect_backward()--> kExpected --begin_backward()--> kInBackward
//     ^____________________________ end() _________________________/
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace lockstep::parallel {

class StepState {
 public:
  enum class Phase {
    kIdle,        // Gradients stay on this rank.
    kExpected,    // The next backward pass will be synchronized.
    kInBackward,  // A gradient of it was ready.
  };

  // A new step, whatever became of the one before. `bucket_sizes`: how many gradients each has.
  void expect_backward(std::size_t parameters, std::vector<std::size_t> bucket_sizes);
  // To be called for each gradient. Returns whether it is the first one of the step.
  bool begin_backward();
  // Nothing waits for this step any more. What was ready can still be asked.
  void end() { phase_ = Phase::kIdle; }

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool is_synchronized() const { return phase_ != Phase::kIdle; }

  // False if it was ready before.
  bool mark_ready(std::size_t parameter);
  [[nodiscard]] bool is_ready(std::size_t parameter) const { return ready_[parameter]; }
  [[nodiscard]] std::vector<std::size_t> missing() const;  // Parameters that are not.
  // One gradient more is in this bucket.
  void count_in(std::size_t bucket) { --pending_[bucket]; }
  // The next bucket to start, if all of its gradients are in it: every rank starts the buckets in
  // the same order, whatever the order of its gradients. Each bucket is returned once.
  std::optional<std::size_t> next_complete_bucket();
  [[nodiscard]] bool all_started() const { return next_ == pending_.size(); }

  // Watches for the end of this backward pass. Returns false if it is watched already.
  bool watch(int backward);

 private:
  Phase phase_ = Phase::kIdle;
  std::vector<bool> ready_;           // By parameter.
  std::vector<std::size_t> pending_;  // By bucket: gradients that it waits for.
  std::size_t next_ = 0;              // The first bucket that was not started.
  int watched_ = -1;
};

}  // namespace lockstep::parallel
