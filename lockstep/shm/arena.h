// Hands out pieces of one rank's segment.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/base/fork_guard.h"
#include "lockstep/shm/segment.h"

namespace lockstep::shm {

// Thread-safe. Memory that was given back is kept for the next call; large pieces go back to the
// machine.
class Arena {
 public:
  // Pieces come from [begin, end) of the segment, which must outlive the arena.
  Arena(const Segment& segment, std::size_t begin, std::size_t end);

  // An offset in the segment, a multiple of the page size. Throws IoError, beginning with `what`,
  // if the machine or the address space of the segment has too little.
  std::size_t take(std::size_t bytes, const std::string& what);
  void give_back(std::size_t offset);
  // From now on nothing is handed out and nothing is used again: a peer that is behind may still
  // write where a tensor was.
  void freeze();

 private:
  void back(std::size_t offset, std::size_t bytes, const std::string& what);
  void fill_holes(std::size_t begin, std::size_t end);

  const Segment& segment_;
  ForkGuard fork_guard_;  // A fork has a copy of the lists, but the memory is its parent's.
  bool frozen_ = false;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // Offset to bytes; neighbours are merged.
  std::map<std::size_t, std::size_t> taken_;
  std::map<std::size_t, std::size_t> holes_;  // Below backed_until_, without pages again.
  std::size_t backed_until_ = 0;
};

}  // namespace lockstep::shm
