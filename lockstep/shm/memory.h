// The mapped segments of all ranks of a group, and where things are in them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/shm/arena.h"
#include "lockstep/shm/layout.h"
#include "lockstep/shm/segment.h"

namespace lockstep::shm {

class Memory {
 public:
  // A rank's own segment with its control block written and everything but the arena backed, of
  // which the first piece has `arena_bytes`. Throws IoError if the machine has too little.
  static Segment prepare(const Layout& layout, int rank, std::size_t arena_bytes);

  // Throws PeerError, naming the rank, if a segment is not laid out as `layout` says.
  Memory(const Layout& layout, std::vector<Segment> segments);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] Control& control(int rank) const;
  // One of the two staging buffers of a rank, and of its two tables for calls: bytes that it gives
  // to, or takes from, each rank.
  [[nodiscard]] std::byte* staging(int rank, std::uint64_t turn) const;
  [[nodiscard]] Word* given(int rank, std::uint64_t turn) const { return table(rank, turn, 0); }
  [[nodiscard]] Word* taken(int rank, std::uint64_t turn) const { return table(rank, turn, 1); }
  [[nodiscard]] LetterBox& letter_box(int from, int to) const;

  // Of a rank of this process.
  [[nodiscard]] Arena& arena(int rank) { return arenas_.at(rank); }
  // The offset of memory from the rank's arena; 0 if it is any other memory.
  [[nodiscard]] std::uint64_t place_of(int rank, const void* data, std::size_t bytes) const;
  // What a peer says lies at `place` of its arena; null if that is not in it or not aligned. Maps
  // what the peer has added to its segment; throws IoError if there is no address space for that.
  [[nodiscard]] std::byte* at(int rank, std::uint64_t place, std::size_t bytes,
                              std::size_t alignment);

 private:
  [[nodiscard]] std::byte* base(int rank) const {
    return segments_[static_cast<std::size_t>(rank)].data();
  }
  [[nodiscard]] Word* table(int rank, std::uint64_t turn, std::size_t which) const;
  void map_until(int rank, std::uint64_t place);

  Layout layout_;
  std::vector<Segment> segments_;
  std::map<int, Arena> arenas_;  // By rank; they do not move.
  std::mutex mutex_;             // Of mapping more of the peers' segments.
};

// `bytes` from the rank's arena, given back with the last pointer, which keeps the memory mapped.
std::shared_ptr<std::byte> allocate(const std::shared_ptr<Memory>& memory, int rank,
                                    std::size_t bytes);

}  // namespace lockstep::shm
