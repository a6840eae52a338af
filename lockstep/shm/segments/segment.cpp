#include "lockstep/shm/segments/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"
#include "lockstep/shm/segments/host_lock.h"

namespace lockstep::shm {
namespace {

constexpr unsigned kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t kCapacity = std::size_t{1}
                                  << 44;  // Costs nothing: neither pages nor addresses.

// What the kernel needs beside the pages themselves: 0.2 % for the file and as much for each
// process that maps it (x86_64, Linux 6.18). Taking what is free to the last page gets a process
// killed.
std::size_t kernel_tables(std::size_t bytes) { return bytes / 32 + (std::size_t{4} << 20); }

// Making a file of the whole capacity would raise a signal under `ulimit -f`.
std::size_t allowed_capacity() {
  struct rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  return std::min<std::uint64_t>(kCapacity, limit.rlim_cur) / kGranule * kGranule;
}

bool is_writable(int fd, unsigned seals) {
  const auto mode = static_cast<unsigned>(::fcntl(fd, F_GETFL)) & O_ACCMODE;
  return mode == O_RDWR && (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) == 0;
}

}  // namespace

Segment Segment::create(std::size_t bytes) {
  UniqueFd fd(::memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) {
    throw_errno("shared memory: memfd_create");
  }
  const std::size_t capacity = allowed_capacity();
  if (::ftruncate(fd.get(), static_cast<off_t>(capacity)) != 0) {
    throw_errno("shared memory: a segment of " + size_text(capacity));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    throw_errno("shared memory: sealing a segment");
  }
  Segment segment(std::move(fd), capacity);
  if (bytes > 0) {
    segment.extend(bytes);
  }
  return segment;
}

Segment Segment::adopt(UniqueFd fd, std::size_t bytes, const std::string& whose) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (static_cast<unsigned>(seals) & kSeals) != kSeals) {
    throw PeerError(whose + " handed over something that is no sealed memory segment");
  }
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0 || info.st_size < 0 ||
      static_cast<std::size_t>(info.st_size) < bytes) {
    throw PeerError(whose + " handed over a segment of " +
                    size_text(static_cast<std::uint64_t>(info.st_size)) + ", expected at least " +
                    size_text(bytes));
  }
  if (!is_writable(fd.get(), static_cast<unsigned>(seals))) {
    throw PeerError(whose + " handed over a segment that cannot be written");
  }
  // The mapping is all that is needed: a descriptor per rank and group would soon be too many.
  Segment segment(UniqueFd(), static_cast<std::size_t>(info.st_size));
  segment.add(Mapping::of_passing_file(fd.get(), bytes), 0);
  return segment;
}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::move(other.fd_)),
      capacity_(std::exchange(other.capacity_, 0)),
      pieces_(std::move(other.pieces_)),
      count_(other.count_.exchange(0)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this != &other) {
    pieces_ = std::move(other.pieces_);
    fd_ = std::move(other.fd_);
    capacity_ = std::exchange(other.capacity_, 0);
    count_ = other.count_.exchange(0);
  }
  return *this;
}

void Segment::extend(std::size_t end) {
  const std::size_t begin = bytes();
  const std::size_t count = pieces();
  if (end > capacity_ || count == kMaxPieces) {
    throw IoError("shared memory: a segment of " + size_text(end) + " in " +
                  std::to_string(count + 1) + " pieces, expected at most " + size_text(capacity_) +
                  " in " + std::to_string(kMaxPieces) + "; see `ulimit -f`");
  }
  if (is_own()) {
    add(Mapping::of_file(fd_.get(), begin, end - begin), begin);
  } else {
    const Mapping& last = pieces_[count - 1].mapping;
    add(Mapping::beyond(last, last.bytes(), end - begin), begin);
  }
}

void Segment::extend_first(std::size_t end) {
  pieces_[0].mapping = Mapping::beyond(pieces_[0].mapping, 0, end);
}

void Segment::add(Mapping mapping, std::size_t begin) {
  const std::size_t count = pieces();
  pieces_[count] = {std::move(mapping), begin};
  count_.store(count + 1, std::memory_order_release);
}

std::size_t Segment::bytes() const {
  const std::size_t count = pieces();
  return count == 0 ? 0 : pieces_[count - 1].begin + pieces_[count - 1].mapping.bytes();
}

// Most memory is in the pieces that came last.
std::byte* Segment::at(std::size_t offset, std::size_t bytes) const {
  for (std::size_t i = pieces(); i-- > 0;) {
    const auto& [mapping, begin] = pieces_[i];
    if (offset >= begin && offset - begin < mapping.bytes()) {
      const std::size_t inside = offset - begin;
      return bytes <= mapping.bytes() - inside ? mapping.data() + inside : nullptr;
    }
  }
  return nullptr;
}

std::optional<std::size_t> Segment::offset_of(const void* data, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t i = pieces(); i-- > 0;) {
    const auto& [mapping, begin] = pieces_[i];
    const std::size_t inside = address - reinterpret_cast<std::uintptr_t>(mapping.data());
    if (inside < mapping.bytes() && bytes <= mapping.bytes() - inside) {
      return begin + inside;
    }
  }
  return std::nullopt;
}

bool Segment::begins_a_piece(std::size_t offset) const {
  const auto end = pieces_.begin() + static_cast<std::ptrdiff_t>(pieces());
  return std::any_of(pieces_.begin(), end,
                     [&](const Piece& piece) { return piece.begin == offset; });
}

// The lock makes looking and taking one step. Otherwise ranks that start together would each find
// free what all of them are about to take.
void Segment::back(std::size_t offset, std::size_t bytes, const std::string& what) const {
  const auto explain = [&](const std::string& why) {
    return IoError(what + ": " + size_text(bytes) + " of shared memory are needed, " + why +
                   "; use fewer ranks or smaller tensors, or raise the limit");
  };
  const std::size_t tables = kernel_tables(bytes);
  const HostLock lock;
  const FreeMemory free = free_memory();
  if (bytes > free.bytes || tables > free.bytes - bytes) {
    throw explain("and " + size_text(tables) + " for the kernel's tables of them; " +
                  size_text(free.bytes) + " are free in " + free.limited_by);
  }
  int result = 0;
  do {
    result = ::fallocate(fd_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    throw explain(std::string("the kernel refused them: ") + std::strerror(errno));
  }
}

void Segment::unback(std::size_t offset, std::size_t bytes) const {
  ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

}  // namespace lockstep::shm
