#include "lockstep/data/workers/recycled_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace lockstep::data {
namespace {

constexpr std::size_t kMostKept = 64;  // Sixteen workers have 32 batches ahead of use.
constexpr std::size_t kAlignment = 64;

}  // namespace

// A lock that is not free is not waited for: there is always malloc.
struct RecycledMemory::Shared {
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Block {
    std::unique_ptr<void, Free> memory;
    std::size_t bytes = 0;

    // A last batch is smaller than the others; what is much too large is for something else.
    [[nodiscard]] bool fits(std::size_t wanted) const {
      return bytes >= wanted && bytes / 8 <= wanted;
    }
  };

  static Block allocated(std::size_t bytes) {
    const std::size_t whole = std::max((bytes + kAlignment - 1) / kAlignment, std::size_t{1});
    void* const memory = std::aligned_alloc(kAlignment, whole * kAlignment);
    if (memory == nullptr) {
      throw std::bad_alloc();
    }
    return {std::unique_ptr<void, Free>(memory), whole * kAlignment};
  }

  std::mutex mutex;
  std::vector<Block> blocks;
  std::atomic<std::size_t> in_use = 0;
  std::atomic<std::size_t> most_in_use = 0;

  void count_use() {
    const std::size_t now = ++in_use;
    std::size_t most = most_in_use;
    while (now > most && !most_in_use.compare_exchange_weak(most, now)) {
    }
  }

  Block take(std::size_t bytes) {
    Block unfit;  // Is gone once the lock is free.
    const std::unique_lock lock(mutex, std::try_to_lock);
    if (lock) {
      const auto found =
          std::ranges::find_if(blocks, [&](const Block& block) { return block.fits(bytes); });
      if (found != blocks.end()) {
        Block block = std::move(*found);
        blocks.erase(found);
        return block;
      }
      if (!blocks.empty()) {  // Batches have another size now: a new block for an old one.
        unfit = std::move(blocks.front());
        blocks.erase(blocks.begin());
      }
    }
    return allocated(bytes);
  }

  // A lock that was not free in take() has led to a block too many: it goes here.
  void keep(Block block) {
    --in_use;
    const std::unique_lock lock(mutex, std::try_to_lock);
    if (lock && blocks.size() < kMostKept && blocks.size() + in_use < most_in_use) {
      blocks.push_back(std::move(block));
    }
  }
};

RecycledMemory::RecycledMemory() : shared_(std::make_shared<Shared>()) {
  shared_->blocks.reserve(kMostKept);  // So that keeping a block cannot fail.
}

std::shared_ptr<void> RecycledMemory::take(std::size_t bytes) {
  Shared::Block block = shared_->take(bytes);
  shared_->count_use();
  const std::size_t size = block.bytes;
  return {block.memory.release(), [shared = shared_, size](void* memory) {
            shared->keep({std::unique_ptr<void, Shared::Free>(memory), size});
          }};
}

std::size_t RecycledMemory::kept() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->blocks.size();
}

}  // namespace lockstep::data
