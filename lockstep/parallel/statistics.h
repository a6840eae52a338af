// How long data-parallel training took, and how much it moved.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace lockstep {

// Totals since the module was wrapped. Times are measured on the host: for a GPU, that is the time
// to start the work. Replays of a recorded step count as steps, but add no time.
struct DistributedDataParallelStats {
  std::uint64_t steps = 0;           // Synchronized ones.
  std::size_t buckets = 0;           // As they are now.
  std::size_t bytes = 0;             // Summed in each step.
  std::size_t copied = 0;            // Bytes copied into buckets in the last step.
  std::size_t moved = 0;             // Buckets, in all steps, to leave memory that others held.
  double forward_seconds = 0;        // In synchronized steps, like those below.
  double backward_seconds = 0;       // From the end of forward to the end of backward.
  double communication_seconds = 0;  // While a bucket was being summed.
  double waiting_seconds = 0;        // While backward waited for a sum.

  // The part of communication during which backward went on; 0 if there was none.
  [[nodiscard]] double hidden() const {
    return communication_seconds > 0 ? std::max(0.0, 1 - waiting_seconds / communication_seconds)
                                     : 0;
  }
};

namespace parallel {

// The communication of one step.
struct CommunicationTimes {
  std::chrono::duration<double> running{
      0};  // While sums ran; 0 on a GPU, where the host cannot see it.
  std::chrono::duration<double> waiting{0};  // By the thread that ran backward, for the sums.
  std::size_t copied = 0;                    // Bytes of gradients, into buckets.
  std::size_t moved = 0;                     // Buckets that left memory that others held.
};

}  // namespace parallel
}  // namespace lockstep
