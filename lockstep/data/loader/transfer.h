// Takes batches to page-locked memory and to a device, ahead of their use.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>

#include "lockstep/data/datasets/dataset.h"

namespace lockstep::data {

// A batch on its way: the copy may still run on a stream of its own.
struct Transferred {
  Sample batch;
  std::optional<c10::Event> copied;
};

// Copies of one share a stream.
class Transfer {
 public:
  // Without a device, or with the CPU, batches stay where they are, in page-locked memory if
  // `pin_memory` and there is a GPU; as in Python, it means nothing where there is none.
  Transfer(bool pin_memory, std::optional<c10::Device> device);

  // Starts the copy on a stream of its own, and does not wait for it. Any thread may call it, also
  // while another one records a CUDA graph.
  [[nodiscard]] Transferred start(Sample batch) const;

  // The stream of the copies; none if batches stay.
  [[nodiscard]] const std::optional<c10::Stream>& stream() const { return stream_; }

  // What is given to the current stream from now on finds the whole batch. The host does not wait.
  static Sample finish(Transferred transferred);

 private:
  bool pin_memory_;
  std::optional<c10::Device> device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace lockstep::data
