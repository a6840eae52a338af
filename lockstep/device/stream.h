// Streams of a GPU, and which waits for which. On the CPU there is one, and nothing waits.
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

namespace lockstep::device {

c10::Stream current_stream(c10::Device device);

// A stream beside the current one; several that are asked for may be the same.
c10::Stream side_stream(c10::Device device);

// What `waiting` is given from now on runs after what `other` was given. The host does not wait.
void make_wait(const c10::Stream& waiting, const c10::Stream& other);

// While it lives, work goes to another stream, as if it were the current one: after what the
// current one was given, and before what it is given next.
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
