#include "lockstep/data/cache/mapped_cache_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/base/abandoned_files.h"
#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"
#include "lockstep/data/cache/shared_file.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t kMoreBytes = std::uint64_t{64} << 20;  // A file grows by at least this.

// Gives back what a refused growth has taken. Failing here is not an error: the caller tells why
// the growth was refused.
void give_back(int fd, std::uint64_t size) {
  [[maybe_unused]] const int ignored = ::ftruncate(fd, static_cast<off_t>(size));
}

}  // namespace

MappedCacheFile::MappedCacheFile(ImageCacheOptions options) : options_(std::move(options)) {
  const auto start = cache_data_start(static_cast<std::uint64_t>(options_.images));
  if (!start) {
    refuse(std::to_string(options_.images) + " images are more than a cache can have");
  }
  limit_ = *start + 2 * options_.bytes + kMoreBytes;
  open_file();
  try {
    take_over_or_create();
    map();
  } catch (...) {
    remove_if_unused();
    throw;
  }
  raise_used();
}

MappedCacheFile::~MappedCacheFile() {
  if (memory_ != nullptr) {
    ::munmap(memory_, limit_);
  }
  remove_if_unused();
}

// All who use the file share its lock; whoever creates it anew must have the lock alone. If two
// find it missing, one creates it and then uses it, so the other asks for the shared lock again
// instead of waiting to have it alone.
void MappedCacheFile::take_over_or_create() {
  std::optional<Deadline> damaged_until;
  while (true) {
    if (!lock_file(fd_.get(), LOCK_SH)) {
      refuse_lock("another process has held it for " + to_text(kLockTime) +
                  "; look for one that hangs");
    }
    if (!is_still_named(fd_.get(), options_.path)) {  // Its last user may have removed it.
      open_file();
      continue;
    }
    if (is_usable()) {
      return;
    }
    if (lock_file(fd_.get(), LOCK_EX, std::chrono::milliseconds(0))) {
      if (is_still_named(fd_.get(), options_.path) && !is_usable()) {
        create();
      }
      continue;
    }
    if (damaged_until && damaged_until->passed()) {
      refuse_lock("it is damaged while others use it; end them, remove the file and start again");
    }
    damaged_until = damaged_until.value_or(Deadline::in(kLockTime));
    // Two processes that share the lock would keep each other from having it alone.
    ::flock(fd_.get(), LOCK_UN);
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + ::getpid() % 7));
  }
}

// Removes the file if it is in memory and nobody else uses it. Not in a fork: it shares the lock,
// so it would get it and take the file from the process that opened it.
void MappedCacheFile::remove_if_unused() const {
  const bool is_mine = owner_ == ::getpid();
  if (options_.in_memory && is_mine && ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0 &&
      is_still_named(fd_.get(), options_.path)) {
    ::unlink(options_.path.c_str());
  }
}

void MappedCacheFile::open_file() {
  fd_.reset(::open(options_.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat status{};
  if (!fd_ || ::fstat(fd_.get(), &status) != 0) {
    throw_errno("image cache '" + options_.path + "'");
  }
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) {
    fd_.reset();
    refuse("it is not a file of this user; remove it or choose another place");
  }
}

bool MappedCacheFile::is_usable() {
  std::byte page[kCacheHeaderBytes];
  struct stat status{};
  // The length last: another process may let the file grow, and say so in the header afterwards.
  if (::pread(fd_.get(), page, sizeof page, 0) != static_cast<ssize_t>(sizeof page) ||
      ::fstat(fd_.get(), &status) != 0) {
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

void MappedCacheFile::require_memory(std::uint64_t bytes) const {
  const FreeMemory memory = free_memory();
  if (bytes > memory.bytes) {
    refuse(size_text(bytes) + " are needed, " + size_text(memory.bytes) + " are free in " +
           memory.limited_by + "; reduce images by a shorter side, or keep the cache on the disk");
  }
}

// The header goes last: a file without it is made anew.
void MappedCacheFile::create() {
  const auto images = static_cast<std::uint64_t>(options_.images);
  CacheHeader header = make_cache_header(options_.key, images, limit_);
  header.capacity = header.used + options_.bytes;
  if (::ftruncate(fd_.get(), 0) != 0) {
    throw_errno("image cache '" + options_.path + "'");
  }
  if (options_.in_memory) {  // What a killed process left has been given back by now.
    require_memory(header.capacity);
  }
  const int error = allocate(fd_.get(), 0, header.capacity);
  if (error != 0) {
    give_back(fd_.get(), 0);
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
void MappedCacheFile::map() {
  void* const memory =
      ::mmap(nullptr, limit_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_.get(), 0);
  if (memory == MAP_FAILED) {
    throw_errno("image cache '" + options_.path + "': mapping " + size_text(limit_));
  }
  memory_ = static_cast<std::byte*>(memory);
}

// A machine that lost power may have kept entries but not the counters: what is written next must
// not lie on them, even if they are behind what the header says is reserved.
void MappedCacheFile::raise_used() const {
  std::uint64_t end = 0;
  for (std::int64_t i = 0; i < options_.images; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    if (const auto view = read_cache_entry(bytes(), index, limit_, /*check=*/false)) {
      const auto* pixels = reinterpret_cast<const std::byte*>(view->row(view->height));
      end = std::max(end, static_cast<std::uint64_t>(pixels - memory_));
    }
  }
  end = aligned_cache_offset(end);
  const std::atomic_ref used(header().used);
  std::uint64_t now = used.load();
  while (now < end && !used.compare_exchange_weak(now, end)) {
  }
}

CacheHeader& MappedCacheFile::header() const { return *reinterpret_cast<CacheHeader*>(memory_); }

CacheEntry& MappedCacheFile::entry(std::int64_t index) const {
  return reinterpret_cast<CacheEntry*>(memory_ + kCacheHeaderBytes)[index];
}

std::uint64_t MappedCacheFile::used_bytes() const {
  return std::min(std::atomic_ref(header().used).load(std::memory_order_acquire), limit_);
}

std::uint64_t MappedCacheFile::capacity() const {
  return std::min(std::atomic_ref(header().capacity).load(std::memory_order_acquire), limit_);
}

void MappedCacheFile::write(std::uint64_t offset, std::span<const std::uint8_t> bytes) const {
  if (!write_at(fd_.get(), offset, bytes)) {
    throw_errno("image cache '" + options_.path + "'");
  }
}

// One process at a time asks the disk for more.
void MappedCacheFile::reserve(std::uint64_t end) {
  const std::atomic_ref reserved(header().capacity);
  if (end <= reserved.load(std::memory_order_acquire)) {
    return;
  }
  const UniqueFd own(::open(("/proc/self/fd/" + std::to_string(fd_.get())).c_str(),
                            O_RDWR | O_CLOEXEC));  // A lock belongs to an open file.
  if (!own) {
    throw_errno("image cache '" + options_.path + "': opening it to reserve room");
  }
  if (!lock_growing(own.get())) {
    refuse_lock("another process has been reserving room for " + to_text(kLockTime) +
                "; look for one that hangs");
  }
  const std::uint64_t capacity = reserved.load(std::memory_order_acquire);
  if (end <= capacity) {
    return;
  }
  const std::uint64_t wanted = std::min(std::max(end, capacity + kMoreBytes), limit_);
  const bool is_too_much = options_.in_memory && free_memory().bytes < wanted - capacity;
  const int error = is_too_much ? ENOMEM : allocate(own.get(), capacity, wanted);
  if (error != 0) {
    give_back(own.get(), capacity);  // Nobody uses what is behind.
    refuse("there is no room for " + size_text(wanted - capacity) + " more (" +
           std::system_category().message(error) + "); free some or choose another place");
  }
  reserved.store(wanted, std::memory_order_release);
}

void MappedCacheFile::refuse_lock(const std::string& if_held) const {
  if (errno == EWOULDBLOCK || errno == EACCES) {
    refuse(if_held);
  }
  throw_errno("image cache '" + options_.path + "': locking it");
}

void MappedCacheFile::refuse(const std::string& what) const {
  throw IoError("image cache '" + options_.path + "': " + what);
}

}  // namespace lockstep::data
