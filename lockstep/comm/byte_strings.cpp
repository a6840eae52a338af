// Byte strings as tensors of bytes: first their sizes travel, then they do.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <cstring>

#include "lockstep/comm/group_state.h"

namespace lockstep {
namespace {

at::Tensor to_tensor(const std::string& bytes, at::Device device) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) {  // An empty tensor has no memory to copy to.
    std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  }
  return tensor.to(device);
}

std::string to_string(const at::Tensor& tensor) {
  const at::Tensor here = tensor.to(at::kCPU).contiguous();
  if (here.numel() == 0) {
    return {};
  }
  return {static_cast<const char*>(here.data_ptr()), static_cast<std::size_t>(here.numel())};
}

}  // namespace

at::Device Group::object_device() const {
  return state_->backends.contains(at::kCPU) ? at::Device(at::kCPU) : device();
}

std::string Group::broadcast_bytes(const std::string& bytes, int root,
                                   const CollectiveOptions& options) const {
  const at::Device where = object_device();
  at::Tensor size = at::full({1}, static_cast<std::int64_t>(bytes.size()),
                             at::TensorOptions(at::kLong).device(where));
  broadcast(size, root, options).wait();
  at::Tensor content = rank() == root ? to_tensor(bytes, where)
                                      : at::empty({size.item<std::int64_t>()},
                                                  at::TensorOptions(at::kByte).device(where));
  broadcast(content, root, options).wait();
  return to_string(content);
}

std::vector<std::string> Group::all_gather_bytes(const std::string& bytes,
                                                 const CollectiveOptions& options) const {
  const at::Device where = object_device();
  const auto count = static_cast<std::size_t>(size());
  const at::TensorOptions longs = at::TensorOptions(at::kLong).device(where);
  std::vector<at::Tensor> sizes(count);
  for (auto& one : sizes) {
    one = at::empty({1}, longs);
  }
  all_gather(sizes, at::full({1}, static_cast<std::int64_t>(bytes.size()), longs), options).wait();
  std::vector<at::Tensor> contents;
  for (const auto& one : sizes) {
    contents.push_back(
        at::empty({one.item<std::int64_t>()}, at::TensorOptions(at::kByte).device(where)));
  }
  all_gather(contents, to_tensor(bytes, where), options).wait();
  std::vector<std::string> strings;
  for (const auto& content : contents) {
    strings.push_back(to_string(content));
  }
  return strings;
}

}  // namespace lockstep
