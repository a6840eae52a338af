#include "lockstep/device/stream.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace lockstep::device {

void set_device(c10::Device device) {
  if (!device.is_cpu()) {
    c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  }
}

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

namespace {

// LibTorch has two pools of streams, by priority, and deals each of them out in turn.
c10::Stream from_pool(c10::Device device, bool high_priority) {
  return device.is_cpu() ? current_stream(device)
                         : c10::impl::VirtualGuardImpl(device.type())
                               .getStreamFromGlobalPool(device, high_priority);
}

}  // namespace

c10::Stream side_stream(c10::Device device) { return from_pool(device, /*high_priority=*/false); }

c10::Stream copy_stream(c10::Device device) { return from_pool(device, /*high_priority=*/true); }

void make_wait(const c10::Stream& waiting, const c10::Stream& other) {
  if (waiting == other) {
    return;
  }
  c10::Event event(waiting.device_type());
  event.record(other);
  event.block(waiting);
}

OnStream::OnStream(const c10::Stream& stream)
    : outer_(current_stream(stream.device())), inner_(stream), guard_(stream) {
  make_wait(inner_, outer_);
}

OnStream::~OnStream() {
  try {
    make_wait(outer_, inner_);
  } catch (const std::exception&) {  // The GPU is lost: the next call on it says so.
  }
}

}  // namespace lockstep::device
