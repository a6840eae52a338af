// How far the host may run ahead of a GPU.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <cstddef>
#include <deque>

namespace lockstep::device {

// The host starts steps much faster than a GPU does them, and each that is started keeps its batch.
// On the CPU there is nothing to wait for.
class StepsAhead {
 public:
  explicit StepsAhead(c10::Device device, std::size_t most = 2) : device_(device), most_(most) {}

  // A step was given to the current stream. Returns when at most `most` steps are not finished.
  void after_step();

 private:
  c10::Device device_;
  std::size_t most_;
  std::deque<c10::Event> ends_;  // Of the last steps, in their order.
};

}  // namespace lockstep::device
