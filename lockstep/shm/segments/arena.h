// Hands out blocks of one rank's segment, which grows as needed.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/base/process/fork_guard.h"
#include "lockstep/shm/segments/layout.h"
#include "lockstep/shm/segments/segment.h"

namespace lockstep::shm {

// Thread-safe. Freed memory is kept for the next call. Large blocks return their pages to the
// machine and keep their address space.
class Arena {
 public:
  // Blocks come from [begin, end of the segment) and from pieces that the arena adds. The segment
  // must outlive the arena, and nobody else may extend it. For the peers, the arena writes where
  // each added piece ends to `piece_ends`, an array of kMaxPieces words.
  Arena(Segment& segment, std::size_t begin, Word* piece_ends);

  // Returns an offset in the segment, a multiple of the page size. Throws IoError, whose message
  // begins with `what`, if the machine has too little memory or this process too little address
  // space.
  std::size_t take(std::size_t bytes, const std::string& what);
  void give_back(std::size_t offset);
  // From now on hands out nothing and reuses nothing: a slow peer may still write where a tensor
  // was.
  void freeze();

  struct MemoryUse {
    std::size_t allocated_bytes = 0;  // Handed out, in whole pages.
    std::size_t reserved_bytes = 0;   // Taken from the machine; what was given back counts, too.
  };
  [[nodiscard]] MemoryUse memory_use();  // Nothing in a fork.

 private:
  void grow(std::size_t bytes, const std::string& what);
  void extend(std::size_t bytes);
  void back(std::size_t offset, std::size_t bytes, const std::string& what);
  void fill_holes(std::size_t begin, std::size_t end);

  Segment& segment_;
  Word* piece_ends_;
  ForkGuard fork_guard_;  // A fork has a copy of the lists, but the memory is its parent's.
  bool frozen_ = false;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // Offset to bytes; neighbours of a piece are merged.
  std::map<std::size_t, std::size_t> taken_;
  std::map<std::size_t, std::size_t> holes_;  // Below backed_until_, without pages again.
  std::size_t begin_;
  std::size_t backed_until_;
};

}  // namespace lockstep::shm
