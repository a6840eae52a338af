#include "lockstep/comm/backends/shm/gpu_order.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <memory>

#include "lockstep/device/stream.h"

namespace lockstep::comm {

std::optional<at::Device> gpu_of(const std::vector<at::Tensor>& tensors) {
  for (const auto& tensor : tensors) {
    if (tensor.defined() && !tensor.is_cpu()) {
      return tensor.device();
    }
  }
  return std::nullopt;
}

std::function<void()> after_current_stream(at::Device gpu, std::function<void()> run) {
  const auto ready = std::make_shared<c10::Event>(gpu.type());
  ready->record(device::current_stream(gpu));
  return [ready, stream = device::copy_stream(gpu), run = std::move(run)] {
    const c10::StreamGuard guard(stream);
    ready->block(stream);
    run();
  };
}

}  // namespace lockstep::comm
