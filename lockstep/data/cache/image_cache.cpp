#include "lockstep/data/cache/image_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kMoreBytes = std::uint64_t{64} << 20;  // By which a file grows at least.
// Others hold these locks while they make a file or reserve room, which takes a moment.
constexpr std::chrono::seconds kLockTime{60};

// Asks again until a lock is free, because a wait for it could not have an end.
template <class Attempt>
bool lock_in_time(const Attempt& attempt) {
  const Deadline deadline = Deadline::in(kLockTime);
  while (!attempt()) {
    if ((errno != EWOULDBLOCK && errno != EACCES && errno != EINTR) || deadline.passed()) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

bool lock_growing(int fd, short kind) {
  struct flock range{};
  range.l_type = kind;
  range.l_whence = SEEK_SET;
  range.l_len = 1;
  return ::fcntl(fd, F_OFD_SETLK, &range) == 0;
}

std::uint64_t add(std::uint64_t& word, std::uint64_t bytes) {
  return std::atomic_ref(word).fetch_add(bytes, std::memory_order_relaxed);
}

std::uint64_t load(std::uint64_t& word) {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

}  // namespace

ImageCache::ImageCache(ImageCacheOptions options) : options_(std::move(options)) {
  const auto start = cache_data_start(static_cast<std::uint64_t>(options_.images));
  if (!start) {
    refuse(std::to_string(options_.images) + " images are more than a cache can have");
  }
  limit_ = *start + 2 * options_.bytes + kMoreBytes;
  checked_ = std::make_unique<std::atomic<bool>[]>(static_cast<std::size_t>(options_.images));
  open_file();
  take_over_or_create();
  map();
  raise_used();
}

// While anybody uses the file, all hold its lock together; who makes it anew holds it alone.
void ImageCache::take_over_or_create() {
  while (true) {
    if (!lock_in_time([&] { return ::flock(fd_.get(), LOCK_SH | LOCK_NB) == 0; })) {
      refuse("another process has held it for " + to_text(kLockTime) + "; look for one that hangs");
    }
    if (!is_still_named()) {
      open_file();
      continue;
    }
    if (is_usable()) {
      return;
    }
    if (!lock_in_time([&] { return ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0; })) {
      refuse("it is damaged while others use it; end them, remove the file and start again");
    }
    if (is_still_named() && !is_usable()) {
      create();
    }
  }
}

// Its last user may remove it between opening and locking.
bool ImageCache::is_still_named() const {
  struct stat named{};
  struct stat opened{};
  return ::fstat(fd_.get(), &opened) == 0 && ::stat(options_.path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

ImageCache::~ImageCache() {
  if (memory_ != nullptr) {
    ::munmap(memory_, limit_);
  }
  if (options_.remove_when_last && ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) {
    ::unlink(options_.path.c_str());
  }
}

void ImageCache::open_file() {
  fd_.reset(::open(options_.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat status{};
  if (!fd_ || ::fstat(fd_.get(), &status) != 0) {
    throw_errno("image cache '" + options_.path + "'");
  }
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) {
    refuse("it is not a file of this user; remove it or choose another place");
  }
}

bool ImageCache::is_usable() {
  std::byte page[kCacheHeaderBytes];
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0 ||
      ::pread(fd_.get(), page, sizeof page, 0) != static_cast<ssize_t>(sizeof page)) {
    return false;
  }
  const auto found =
      read_cache_header(page, options_.key, static_cast<std::uint64_t>(options_.images));
  if (!found || found->capacity > static_cast<std::uint64_t>(status.st_size)) {
    return false;
  }
  limit_ = found->limit;
  return true;
}

// The header goes last: a file without it is made anew.
void ImageCache::create() {
  const auto images = static_cast<std::uint64_t>(options_.images);
  CacheHeader header = make_cache_header(options_.key, images, limit_);
  header.capacity = header.used + options_.bytes;
  if (::ftruncate(fd_.get(), 0) != 0) {
    throw_errno("image cache '" + options_.path + "'");
  }
  const int error = ::posix_fallocate(fd_.get(), 0, static_cast<off_t>(header.capacity));
  if (error != 0) {
    (void)::ftruncate(fd_.get(), 0);
    ::unlink(options_.path.c_str());
    refuse("there is no room for " + size_text(header.capacity) + " (" +
           std::system_category().message(error) +
           "); free some, choose another place, or reduce images by a shorter side");
  }
  if (::pwrite(fd_.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) {
    throw_errno("image cache '" + options_.path + "'");
  }
}

// All that the file may become. Nothing behind its end is touched.
void ImageCache::map() {
  void* const memory =
      ::mmap(nullptr, limit_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_.get(), 0);
  if (memory == MAP_FAILED) {
    throw_errno("image cache '" + options_.path + "': mapping " + size_text(limit_));
  }
  memory_ = static_cast<std::byte*>(memory);
}

// A machine that lost power may have kept entries but not the counter: what is written next must
// not lie on them.
void ImageCache::raise_used() const {
  std::uint64_t end = 0;
  const std::uint64_t capacity = std::min(load(header().capacity), limit_);
  for (std::int64_t i = 0; i < options_.images; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    if (const auto view = read_cache_entry(file(), index, capacity, /*check=*/false)) {
      const auto* pixels = reinterpret_cast<const std::byte*>(view->row(view->height));
      end = std::max(end, static_cast<std::uint64_t>(pixels - memory_));
    }
  }
  end = (end + kAlignment - 1) / kAlignment * kAlignment;
  const std::atomic_ref used(header().used);
  std::uint64_t now = used.load();
  while (now < end && !used.compare_exchange_weak(now, end)) {
  }
}

CacheHeader& ImageCache::header() const { return *reinterpret_cast<CacheHeader*>(memory_); }

CacheEntry& ImageCache::entry(std::int64_t index) const {
  return reinterpret_cast<CacheEntry*>(memory_ + kCacheHeaderBytes)[index];
}

std::uint64_t ImageCache::used_bytes() const { return std::min(load(header().used), limit_); }

std::optional<ImageView> ImageCache::get(std::int64_t index) {
  std::atomic<bool>& checked = checked_[static_cast<std::size_t>(index)];
  const bool check = !checked.load(std::memory_order_acquire);
  const auto view = read_cache_entry(file(), static_cast<std::uint64_t>(index),
                                     std::min(load(header().capacity), limit_), check);
  if (view && check) {
    checked.store(true, std::memory_order_release);
  }
  return view;
}

bool ImageCache::put(std::int64_t index, ImageView image) {
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * 3;
  const std::uint64_t bytes = row_bytes * static_cast<std::uint64_t>(image.height);
  const std::uint64_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (load(header().used) + taken > limit_) {
    return false;
  }
  const std::uint64_t offset = add(header().used, taken);
  if (offset + taken > limit_) {
    return false;
  }
  reserve(offset + taken);
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::memcpy(memory_ + offset + static_cast<std::size_t>(y) * row_bytes, image.row(y),
                row_bytes);
  }
  // Whoever else writes this entry writes the same, except for the offset.
  CacheEntry& to = entry(index);
  std::atomic_ref(to.width).store(static_cast<std::uint32_t>(image.width),
                                  std::memory_order_relaxed);
  std::atomic_ref(to.height).store(static_cast<std::uint32_t>(image.height),
                                   std::memory_order_relaxed);
  std::atomic_ref(to.crc).store(cache_entry_crc(static_cast<std::uint64_t>(index), image),
                                std::memory_order_relaxed);
  std::atomic_ref(to.offset).store(offset, std::memory_order_release);
  checked_[static_cast<std::size_t>(index)].store(true, std::memory_order_release);
  return true;
}

// One process at a time asks the disk for more.
void ImageCache::reserve(std::uint64_t end) {
  if (end <= load(header().capacity)) {
    return;
  }
  const UniqueFd own(::open(("/proc/self/fd/" + std::to_string(fd_.get())).c_str(),
                            O_RDWR | O_CLOEXEC));  // A lock belongs to an open file.
  if (!own || !lock_in_time([&] { return lock_growing(own.get(), F_WRLCK); })) {
    refuse("another process has been reserving room for " + to_text(kLockTime) +
           "; look for one that hangs");
  }
  const std::uint64_t capacity = load(header().capacity);
  if (end <= capacity) {
    return;
  }
  const std::uint64_t wanted = std::min(std::max(end, capacity + kMoreBytes), limit_);
  const int error = ::posix_fallocate(own.get(), static_cast<off_t>(capacity),
                                      static_cast<off_t>(wanted - capacity));
  if (error != 0) {
    refuse("there is no room for " + size_text(wanted - capacity) + " more (" +
           std::system_category().message(error) + "); free some or choose another place");
  }
  std::atomic_ref(header().capacity).store(wanted, std::memory_order_release);
}

void ImageCache::refuse(const std::string& what) const {
  throw IoError("image cache '" + options_.path + "': " + what);
}

}  // namespace lockstep::data
