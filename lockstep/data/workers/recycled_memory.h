// Large blocks of memory that are used again and again.
//
// A batch of 64 photographs has 38 MB, and malloc takes blocks above 32 MB from the kernel each
// time, which clears them page by page: a sixth of the time of decoding them (2-core x86_64,
// 2026-11-17), and threads of one process wait for each other there.
#pragma once

#include <cstddef>
#include <memory>

namespace lockstep::data {

// Threads may use it at the same time; copies share their blocks. Never blocks, not even in a fork
// that was made while another thread was in it.
class RecycledMemory {
 public:
  RecycledMemory();

  // Aligned to 64 bytes, contents undefined. The block comes back when the last pointer to it is
  // gone, which may be after the end of this object. Throws std::bad_alloc.
  [[nodiscard]] std::shared_ptr<void> take(std::size_t bytes);

  // Blocks that wait to be used again: at most as many as were in use at the same time, and 64.
  [[nodiscard]] std::size_t kept() const;

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;
};

}  // namespace lockstep::data
