// How far the host may run ahead of a GPU.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

namespace lockstep::device {

// The host starts steps much faster than a GPU does them, and each that is started keeps its batch.
// On the CPU there is nothing to wait for.
class StepsAhead {
 public:
  // Returns when is_done() says so, or throws. Null: the GPU waits for nobody, so it will be done.
  using Wait = std::function<void(const std::function<bool()>& is_done)>;

  StepsAhead(c10::Device device, Wait wait, std::size_t most = 2)
      : device_(device), wait_(std::move(wait)), most_(most) {}

  // A step was given to the current stream. Returns when at most `most` steps are not finished.
  void after_step();

 private:
  c10::Device device_;
  Wait wait_;
  std::size_t most_;
  std::deque<c10::Event> ends_;  // Of the last steps, in their order.
};

}  // namespace lockstep::device
