// Hands out blocks of one rank's segment, which grows as needed.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/base/fork_guard.h"
#include "lockstep/shm/layout.h"
#include "lockstep/shm/segment.h"

namespace lockstep::shm {

// Thread-safe. Memory that was given back is kept for the next call; the pages of large blocks go
// back to the machine, their address space is kept.
class Arena {
 public:
  // Blocks come from [begin, end of the segment), and from pieces that are added to it. The segment
  // must outlive the arena; nobody else may extend it. The ends of the pieces that are added are
  // written to `piece_ends`, of which there are kMaxPieces, for the peers.
  Arena(Segment& segment, std::size_t begin, Word* piece_ends);

  // An offset in the segment, a multiple of the page size. Throws IoError, beginning with `what`,
  // if the machine has too little memory or this process too little address space.
  std::size_t take(std::size_t bytes, const std::string& what);
  void give_back(std::size_t offset);
  // From now on nothing is handed out and nothing is used again: a peer that is behind may still
  // write where a tensor was.
  void freeze();

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
  std::size_t backed_until_;
};

}  // namespace lockstep::shm
