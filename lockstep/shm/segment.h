// Memory that several processes map, with no name that could be found or left behind.
//
// It is a memfd: it goes with its last descriptor and mapping. Its size is larger than any machine
// and sealed, so no peer can take bytes away under a reader. It is mapped piece by piece, as much
// as is used: address space is not endless. Pages are taken from the machine by back() alone, where
// running out is an error and not a signal.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>

#include "lockstep/base/fd.h"
#include "lockstep/shm/mapping.h"

namespace lockstep::shm {

inline constexpr std::size_t kMaxPieces = 48;

// Thread-safe but for extend(), which one thread at a time may call, and for moving it.
class Segment {
 public:
  // Its first piece has `bytes`; 0: extend() maps it. Throws IoError where the kernel has no memfd
  // or no address space is left.
  static Segment create(std::size_t bytes);
  // Maps the first `bytes` of what a peer handed over. Throws PeerError, beginning with `whose`,
  // unless it is a memfd of at least this size with all seals that can be read and written.
  static Segment adopt(UniqueFd fd, std::size_t bytes, const std::string& whose);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment() = default;

  // Maps up to `end` as one more piece; both ends of it are multiples of the granule. Throws
  // IoError if there is no address space for it.
  void extend(std::size_t end);
  // Makes the first piece, still the only one, reach to `end`; it moves.
  void extend_first(std::size_t end);

  // Takes memory for this range, mapped or not, zeroed where it had none. Throws IoError that says
  // how much is needed, how much there is and who limits it, beginning with `what`.
  void back(std::size_t offset, std::size_t bytes, const std::string& what) const;
  // Gives the range's pages back; it reads as zeros afterwards.
  void unback(std::size_t offset, std::size_t bytes) const;

  // Null unless all of the range lies in one piece.
  [[nodiscard]] std::byte* at(std::size_t offset, std::size_t bytes) const;
  // Where in the segment this memory lies; nothing unless all of it lies in one piece.
  [[nodiscard]] std::optional<std::size_t> offset_of(const void* data, std::size_t bytes) const;

  // Pieces follow each other in the segment, but not in address space.
  [[nodiscard]] bool begins_a_piece(std::size_t offset) const;

  [[nodiscard]] std::byte* data() const { return pieces_[0].mapping.data(); }
  [[nodiscard]] std::size_t bytes() const;  // Mapped.
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] std::size_t pieces() const { return count_.load(std::memory_order_acquire); }
  // Whether this process created it.
  [[nodiscard]] bool is_own() const { return static_cast<bool>(fd_); }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  struct Piece {
    Mapping mapping;
    std::size_t begin = 0;
  };
  Segment(UniqueFd fd, std::size_t capacity) : fd_(std::move(fd)), capacity_(capacity) {}
  void add(Mapping mapping, std::size_t begin);

  UniqueFd fd_;  // Before the mappings, which end first.
  std::size_t capacity_;
  std::array<Piece, kMaxPieces> pieces_;
  std::atomic<std::size_t> count_{0};  // Publishes the pieces.
};

}  // namespace lockstep::shm
