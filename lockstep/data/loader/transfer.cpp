#include "lockstep/data/loader/transfer.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

template <class Function>
void for_each_tensor(Sample& batch, const Function& function) {
  for (at::Tensor* tensor : {&batch.data, &batch.target}) {
    if (tensor->defined()) {
      function(*tensor);
    }
  }
}

// Streams that are recorded as CUDA graphs come from LibTorch's pool of normal priority, as do
// NCCL's. A copy on one of them would be recorded, and the batch never filled.
std::optional<c10::Stream> copy_stream(const std::optional<c10::Device>& device) {
  if (!device) {
    return std::nullopt;
  }
  if (!c10::impl::hasDeviceGuardImpl(device->type())) {
    throw UsageError("DataLoader: device is " + device->str() + ", which this LibTorch is without");
  }
  const c10::impl::VirtualGuardImpl devices(device->type());
  if (devices.deviceCount() <= std::max<int>(device->index(), 0)) {
    throw UsageError("DataLoader: device is " + device->str() + ", but there are " +
                     std::to_string(devices.deviceCount()) +
                     " devices of this kind; see the driver and CUDA_VISIBLE_DEVICES");
  }
  return devices.getStreamFromGlobalPool(*device, /*isHighPriority=*/true);
}

}  // namespace

Transfer::Transfer(bool pin_memory, std::optional<c10::Device> device)
    : pin_memory_((pin_memory || (device && device->is_cuda())) && at::hasCUDA()),
      device_(device && device->is_cpu() ? std::nullopt : device),
      stream_(copy_stream(device_)) {}

Transferred Transfer::start(Sample batch) const {
  if (pin_memory_) {
    for_each_tensor(batch, [](at::Tensor& tensor) {
      if (tensor.is_cpu()) {
        tensor = tensor.pin_memory();
      }
    });
  }
  if (!device_) {
    return {std::move(batch), std::nullopt};
  }
  const c10::StreamGuard guard(*stream_);
  for_each_tensor(batch, [&](at::Tensor& tensor) {
    tensor = tensor.to(tensor.options().device(*device_), /*non_blocking=*/true);
  });
  c10::Event copied(device_->type());
  copied.record(*stream_);
  return {std::move(batch), std::move(copied)};
}

Sample Transfer::finish(Transferred transferred) {
  if (transferred.copied) {
    const c10::Device device = transferred.batch.data.device();
    const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    transferred.copied->block(stream);
    // The memory came from the other stream's pool: it must not be given out again too early.
    for_each_tensor(transferred.batch, [&](at::Tensor& tensor) { tensor.record_stream(stream); });
  }
  return std::move(transferred.batch);
}

}  // namespace lockstep::data
