// Memory that several processes map, with no name that could be found or left behind.
//
// It is a memfd, which vanishes with its last descriptor and mapping. Its size is larger than any
// machine's memory and sealed, so no peer can take bytes away from a reader. It is mapped piece by
// piece, as much as is used, because address space is limited. Only back() takes pages from the
// machine; there, running out of memory is an error and not a signal.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>

#include "lockstep/base/fd.h"
#include "lockstep/shm/segments/mapping.h"

namespace lockstep::shm {

inline constexpr std::size_t kMaxPieces = 48;

// Thread-safe, except for moving it and for extend(), which only one thread at a time may call.
class Segment {
 public:
  // The first piece has `bytes` bytes; if that is 0, extend() maps it later. Throws IoError if the
  // kernel has no memfd or no address space is left.
  static Segment create(std::size_t bytes);
  // Maps the first `bytes` of a peer's segment. Throws PeerError, whose message begins with
  // `whose`, unless `fd` is a memfd of at least this size that has all seals and can be read and
  // written.
  static Segment adopt(UniqueFd fd, std::size_t bytes, const std::string& whose);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment() = default;

  // Maps up to `end` as one more piece. A piece begins and ends at multiples of the granule. Throws
  // IoError if there is no address space for it.
  void extend(std::size_t end);
  // Extends the first piece to `end`; its address changes. There must be no other piece yet.
  void extend_first(std::size_t end);

  // Takes pages for this range, whether it is mapped or not; new pages are zero. Throws IoError,
  // whose message begins with `what` and says how much is needed, how much there is, and what
  // limits it.
  void back(std::size_t offset, std::size_t bytes, const std::string& what) const;
  // Gives the range's pages back; it reads as zeros afterwards.
  void unback(std::size_t offset, std::size_t bytes) const;

  // Null unless all of the range lies in one piece.
  [[nodiscard]] std::byte* at(std::size_t offset, std::size_t bytes) const;
  // The offset of this memory in the segment; nothing unless all of it lies in one piece.
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
