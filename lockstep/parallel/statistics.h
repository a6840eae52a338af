// What data-parallel training took.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace lockstep {

// Since the module was wrapped. Times are the host's: on a GPU, of starting the work; replays of a
// recorded step count as steps, but take none.
struct DistributedDataParallelStats {
  std::uint64_t steps = 0;           // Synchronized ones.
  std::size_t buckets = 0;           // As they are now.
  std::size_t bytes = 0;             // Summed in each step.
  std::size_t copied = 0;            // Of these, into buckets, in the last step.
  std::size_t moved = 0;             // Buckets, in all steps, to leave memory that others held.
  double forward_seconds = 0;        // Of synchronized steps, as the following.
  double backward_seconds = 0;       // From the end of forward to the end of backward.
  double communication_seconds = 0;  // While a bucket was being summed.
  double waiting_seconds = 0;        // Of backward, for that.

  // The part of communication during which backward went on; 0 if there was none.
  [[nodiscard]] double hidden() const {
    return communication_seconds > 0 ? std::max(0.0, 1 - waiting_seconds / communication_seconds)
                                     : 0;
  }
};

namespace parallel {

// Of one step.
struct CommunicationTimes {
  std::chrono::duration<double> running{
      0};  // Of the sums; 0 on a GPU, which the host does not see.
  std::chrono::duration<double> waiting{0};  // Of the thread that ran backward, for them.
  std::size_t copied = 0;                    // Bytes of gradients, into buckets.
  std::size_t moved = 0;                     // Buckets that left memory that others held.
};

}  // namespace parallel
}  // namespace lockstep
