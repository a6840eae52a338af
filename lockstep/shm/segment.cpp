#include "lockstep/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"

namespace lockstep::shm {
namespace {

constexpr unsigned kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::byte* map(int fd, std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) {
    throw IoError("shared memory: mapping " + size_text(bytes) +
                  " of address space: " + std::strerror(errno) + "; see `ulimit -v`");
  }
  return static_cast<std::byte*>(at);
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
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    throw_errno("shared memory: a segment of " + size_text(bytes));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    throw_errno("shared memory: sealing a segment");
  }
  std::byte* data = map(fd.get(), bytes);
  return {std::move(fd), data, bytes};
}

Segment Segment::adopt(UniqueFd fd, std::size_t least, const std::string& whose) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (static_cast<unsigned>(seals) & kSeals) != kSeals) {
    throw PeerError(whose + " handed over something that is no sealed memory segment");
  }
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0 || info.st_size < 0 ||
      static_cast<std::size_t>(info.st_size) < least) {
    throw PeerError(whose + " handed over a segment of " +
                    size_text(static_cast<std::uint64_t>(info.st_size)) + ", expected at least " +
                    size_text(least));
  }
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (!is_writable(fd.get(), static_cast<unsigned>(seals))) {
    throw PeerError(whose + " handed over a segment that cannot be written");
  }
  // The mapping is all that is needed: a descriptor per rank and group would soon be too many.
  return {UniqueFd(), map(fd.get(), bytes), bytes};
}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this != &other) {
    unmap();
    fd_ = std::move(other.fd_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Segment::~Segment() { unmap(); }

void Segment::unmap() {
  if (data_ != nullptr) {
    ::munmap(data_, bytes_);
    data_ = nullptr;
  }
}

void Segment::back(std::size_t offset, std::size_t bytes, const std::string& what) const {
  const auto explain = [&](const std::string& why) {
    return IoError(what + ": " + size_text(bytes) + " of shared memory are needed, " + why +
                   "; use fewer ranks or smaller tensors, or raise the limit");
  };
  const FreeMemory free = free_memory();
  if (bytes > free.bytes) {
    throw explain(size_text(free.bytes) + " are free in " + free.limited_by);
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
