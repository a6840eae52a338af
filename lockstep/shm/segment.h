// A piece of memory that several processes map, with no name that could be found or left behind.
//
// It is a memfd: it goes with its last descriptor and mapping. It is sealed against shrinking and
// growing, so no peer can take pages away under a reader. Its size is address space; pages are
// taken from the machine by back() alone, where running out is an error and not a signal.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/base/fd.h"

namespace lockstep::shm {

class Segment {
 public:
  // Throws IoError where the kernel has no memfd or no address space is left.
  static Segment create(std::size_t bytes);
  // Maps what a peer handed over. Throws PeerError, beginning with `whose`, unless it is a memfd
  // of at least `least` bytes with all seals that can be read and written.
  static Segment adopt(UniqueFd fd, std::size_t least, const std::string& whose);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  // Takes memory for this range, zeroed where it had none. Throws IoError that says how much is
  // needed, how much there is and who limits it, beginning with `what`.
  void back(std::size_t offset, std::size_t bytes, const std::string& what) const;
  // Gives the range's pages back; it reads as zeros afterwards.
  void unback(std::size_t offset, std::size_t bytes) const;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  Segment(UniqueFd fd, std::byte* data, std::size_t bytes)
      : fd_(std::move(fd)), data_(data), bytes_(bytes) {}
  void unmap();

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::shm
