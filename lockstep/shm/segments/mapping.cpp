#include "lockstep/shm/segments/mapping.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"

namespace lockstep::shm {
namespace {

constexpr int kNoFile = -1;

struct Range {
  void* data;
  std::size_t bytes;
  int fd;
  std::size_t offset;
};

// All mappings of this process. fork() calls no object: what it has to do is kept for the process.
// A fork waits until no mapping is half made.
class ForkList {
 public:
  static ForkList& get() {
    static auto& list = *new ForkList;  // Outlives every static object that holds a mapping.
    return list;
  }

  // `map` returns an address or MAP_FAILED.
  template <class Map>
  std::byte* add(const Map& map, std::size_t bytes, int fd, std::size_t offset) {
    const std::lock_guard lock(mutex_);
    ranges_.reserve(ranges_.size() + 1);
    void* at = map();
    if (at == MAP_FAILED || ::madvise(at, bytes, MADV_DONTFORK) != 0) {
      const int reason = errno;
      if (at != MAP_FAILED) {
        ::munmap(at, bytes);
      }
      throw IoError("shared memory: mapping " + size_text(bytes) +
                    " of address space: " + std::strerror(reason) + "; see `ulimit -v`");
    }
    ranges_.push_back({at, bytes, fd, offset});
    return static_cast<std::byte*>(at);
  }

  void remove(void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::erase_if(ranges_, [&](const Range& range) { return range.data == data; });
    ::munmap(data, bytes);
  }

 private:
  ForkList() {
    ::pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); },
                     [] { get().replace_all(); });
  }

  // In the child, where only calls that are safe in a signal handler are allowed. The ranges are
  // ordinary memory of the child from now on, also for its own forks.
  void replace_all() {
    for (const Range& range : ranges_) {
      if (range.fd == kNoFile || !replace(range, MAP_PRIVATE, range.fd)) {
        replace(range, MAP_PRIVATE | MAP_ANONYMOUS, kNoFile);
      }
    }
    ranges_.clear();
    mutex_.unlock();
  }
  static bool replace(const Range& range, int flags, int fd) {
    const auto offset = fd == kNoFile ? 0 : static_cast<off_t>(range.offset);
    return ::mmap(range.data, range.bytes, PROT_READ | PROT_WRITE,
                  flags | MAP_FIXED | MAP_NORESERVE, fd, offset) != MAP_FAILED;
  }

  std::mutex mutex_;
  std::vector<Range> ranges_;
};

void* map_shared(int fd, std::size_t offset, std::size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                static_cast<off_t>(offset));
}

}  // namespace

Mapping Mapping::of_file(int fd, std::size_t offset, std::size_t bytes) {
  const auto map = [&] { return map_shared(fd, offset, bytes); };
  return {ForkList::get().add(map, bytes, fd, offset), bytes};
}

Mapping Mapping::of_passing_file(int fd, std::size_t bytes) {
  const auto map = [&] { return map_shared(fd, 0, bytes); };
  return {ForkList::get().add(map, bytes, kNoFile, 0), bytes};
}

// mremap() with an old size of 0 maps the file of a shared mapping once more, from that address on
// and as far as asked for.
Mapping Mapping::beyond(const Mapping& known, std::size_t skip, std::size_t bytes) {
  const std::size_t lead = skip == 0 ? 0 : kGranule;  // Mapped already: tells which file and where.
  const auto map = [&]() -> void* {
    void* at = ::mremap(known.data_ + skip - lead, 0, lead + bytes, MREMAP_MAYMOVE);
    if (at == MAP_FAILED || lead == 0) {
      return at;
    }
    ::munmap(at, lead);
    return static_cast<std::byte*>(at) + lead;
  };
  return {ForkList::get().add(map, bytes, kNoFile, 0), bytes};
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    unmap();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Mapping::~Mapping() { unmap(); }

void Mapping::unmap() {
  if (data_ != nullptr) {
    ForkList::get().remove(data_, bytes_);
    data_ = nullptr;
  }
}

}  // namespace lockstep::shm
