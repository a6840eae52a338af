// Lets LibTorch allocate large tensors in a group's arena, where reductions need no copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "lockstep/comm/placement_allocator.h"
#include "lockstep/shm/segments/memory.h"

namespace lockstep::comm {

// Thread-safe. Offers nothing, so that tensors are allocated as always, to those that are too
// small, where the machine has too little memory, in a fork, and once the group is left or failed.
// A tensor may outlive the group; it keeps the memory of the group's whole arena then.
class ArenaSource final : public MemorySource {
 public:
  // A collective of a smaller tensor is about as fast if it is copied.
  static constexpr std::size_t kLeastBytes = std::size_t{32} << 10;

  // Does not keep the memory.
  ArenaSource(const std::shared_ptr<shm::Memory>& memory, int rank)
      : memory_(memory), rank_(rank) {}

  Memory memory_for(std::size_t bytes) override;
  void made(const void* /*data*/, std::size_t /*bytes*/) override {}
  [[nodiscard]] bool is_busy() const override { return false; }

 private:
  std::weak_ptr<shm::Memory> memory_;
  int rank_;
  std::atomic<bool> is_over_ = false;  // The group has nothing to offer any more.
};

}  // namespace lockstep::comm
