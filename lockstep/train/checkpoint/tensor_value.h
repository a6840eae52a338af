// Tensors of torch as the values of a checkpoint file, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "lockstep/checkpoint/value.h"
#include "lockstep/train/checkpoint/map_location.h"

namespace lockstep {

// On the CPU it shares the memory of the value. Throws UsageError if its device is not there, or is
// "meta", whose tensors have no contents.
at::Tensor to_tensor(const checkpoint::Tensor& tensor, const MapLocation& map_location);

// Copies storages to the host, all into one block, each once, however many tensors show it.
class Snapshot {
 public:
  // The value has its bytes after copy_to(). Throws UsageError for a tensor that is not dense, has
  // no contents, or shows a storage that another shows as another type, as torch.save does.
  checkpoint::Tensor take(const at::Tensor& tensor);

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  // `block` has that many bytes, and lives as long as the values. Blocks until they are there.
  void copy_to(const std::shared_ptr<void>& block);

 private:
  struct Part {
    at::Tensor tensor;  // One that shows the storage; the others have its type.
    std::shared_ptr<checkpoint::Storage> storage;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };

  std::vector<Part> parts_;
  std::unordered_map<const void*, std::size_t> numbers_;  // Index of a storage's part in parts_.
  std::size_t bytes_ = 0;
};

}  // namespace lockstep
