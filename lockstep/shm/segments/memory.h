// The mapped segments of all ranks of a group, and where things are in them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/shm/segments/arena.h"
#include "lockstep/shm/segments/layout.h"
#include "lockstep/shm/segments/segment.h"

namespace lockstep::shm {

class Memory {
 public:
  // Makes a rank's own segment: the control block is written, and everything but the arena has
  // pages. The first piece includes `arena_bytes` of arena. Throws IoError if the machine has too
  // little memory.
  static Segment prepare(const Layout& layout, int rank, std::size_t arena_bytes);

  // Throws PeerError, naming the rank, if a segment is not laid out as `layout` says.
  Memory(const Layout& layout, std::vector<Segment> segments);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] Control& control(int rank) const;
  // One of a rank's two staging buffers; and one of its two tables, which say how many bytes it
  // gives to, or takes from, each rank in a call.
  [[nodiscard]] std::byte* staging(int rank, std::uint64_t turn) const;
  [[nodiscard]] Word* sent_sizes(int rank, std::uint64_t turn) const {
    return table(rank, turn, 0);
  }
  [[nodiscard]] Word* received_sizes(int rank, std::uint64_t turn) const {
    return table(rank, turn, 1);
  }
  [[nodiscard]] LetterBox& letter_box(int from, int to) const;

  // The arena of a rank that runs in this process.
  [[nodiscard]] Arena& arena(int rank) { return arenas_.at(rank); }
  // The offset of memory from the rank's arena; 0 if it is any other memory.
  [[nodiscard]] std::uint64_t place_of(int rank, const void* data, std::size_t bytes) const;
  // The memory that a peer says lies at `place` of its arena; null if `place` is not in the arena
  // or not aligned. Maps what the peer has added to its segment; throws IoError if there is no
  // address space for that.
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
  std::mutex mutex_;             // Held while mapping more of the peers' segments.
};

// `bytes` from the rank's arena, given back with the last pointer, which keeps the memory mapped.
std::shared_ptr<std::byte> allocate(const std::shared_ptr<Memory>& memory, int rank,
                                    std::size_t bytes);

}  // namespace lockstep::shm
