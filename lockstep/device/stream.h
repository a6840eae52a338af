// Streams of a GPU, and which waits for which. On the CPU there is one, and nothing waits. And
// which GPU is meant where none is named.
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

namespace lockstep::device {

// As torch.cuda.set_device(), for the calling thread: at::kCUDA without an index is this GPU. Does
// nothing for the CPU.
void set_device(c10::Device device);

c10::Stream current_stream(c10::Device device);

// A stream beside the current one; several that are asked for may be the same. It may be recorded
// as a CUDA graph.
c10::Stream side_stream(c10::Device device);

// The same for threads that work while another one may record: it is never one of side_stream()'s,
// whose work would become a part of the graph. Never record it.
c10::Stream copy_stream(c10::Device device);

// Work launched on `waiting` from now on runs after the work that `other` has now. The host does
// not wait.
void make_wait(const c10::Stream& waiting, const c10::Stream& other);

// While it lives, another stream is the current one. Its work runs after what the former current
// stream has now, and before what that stream gets next.
class OnStream {
 public:
  explicit OnStream(const c10::Stream& stream);
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;
  ~OnStream();

 private:
  c10::Stream outer_;
  c10::Stream inner_;
  c10::StreamGuard guard_;
};

}  // namespace lockstep::device
