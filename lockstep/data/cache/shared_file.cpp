#include "lockstep/data/cache/shared_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "lockstep/base/deadline.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t kStepBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kLeastStepBytes = 4096;

blkcnt_t blocks_of(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 ? status.st_blocks : 0;
}

// Tries again and again, because a blocking wait has no time limit. It ends: a file grows only up
// to its limit or the disk's.
template <class Attempt>
bool lock_in_time(int fd, std::chrono::milliseconds time, const Attempt& attempt) {
  Deadline deadline = Deadline::in(time);
  blkcnt_t most = blocks_of(fd);
  while (!attempt()) {
    const int error = errno;
    if (const blkcnt_t blocks = blocks_of(fd); blocks > most) {
      most = blocks;
      deadline = Deadline::in(time);
    }
    errno = error;
    if ((errno != EWOULDBLOCK && errno != EACCES && errno != EINTR) || deadline.passed()) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace

bool lock_file(int fd, int kind, std::chrono::milliseconds time) {
  return lock_in_time(fd, time, [&] { return ::flock(fd, kind | LOCK_NB) == 0; });
}

bool lock_growing(int fd, std::chrono::milliseconds time) {
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_len = 1;
  return lock_in_time(fd, time, [&] { return ::fcntl(fd, F_OFD_SETLK, &range) == 0; });
}

std::optional<std::string_view> network_file_system(std::uint64_t type) {
  struct Known {
    std::uint64_t type;
    std::string_view name;
  };
  // statfs(2) and linux/magic.h; the parallel ones from their own sources.
  constexpr std::array kKnown = {
      Known{0x6969, "NFS"},        Known{0x517b, "SMB"},        Known{0xff534d42, "CIFS"},
      Known{0xfe534d42, "SMB2"},   Known{0x00c36400, "Ceph"},   Known{0x5346414f, "AFS"},
      Known{0x6b414653, "AFS"},    Known{0x0bd00bd0, "Lustre"}, Known{0x47504653, "GPFS"},
      Known{0x19830326, "BeeGFS"}, Known{0x7461636f, "OCFS2"},  Known{0x01161970, "GFS2"}};
  const auto* const found = std::ranges::find(kKnown, type & 0xffffffff, &Known::type);
  return found == kKnown.end() ? std::nullopt : std::optional(found->name);
}

// In steps, because a signal ends one, which may undo it: then they become shorter, so that signals
// at regular times, of a profiler for example, do not end all of them. Asked for more than there
// is, some disks are filled before they refuse.
int allocate(int fd, std::uint64_t from, std::uint64_t to) {
  struct statvfs disk{};
  // No blocks at all: memory without a limit.
  if (::fstatvfs(fd, &disk) == 0 && disk.f_blocks > 0 && from < to &&
      (to - from) / disk.f_frsize > disk.f_bavail) {
    return ENOSPC;
  }
  std::uint64_t step = kStepBytes;
  while (from < to) {
    const std::uint64_t bytes = std::min(to - from, step);
    const int error = ::posix_fallocate(fd, static_cast<off_t>(from), static_cast<off_t>(bytes));
    if (error != 0 && error != EINTR) {
      return error;
    }
    from += error == 0 ? bytes : 0;
    step = error == 0 ? step : std::max(step / 2, kLeastStepBytes);
  }
  return 0;
}

bool write_at(int fd, std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (wrote < 0 && errno != EINTR) {
      return false;
    }
    if (wrote == 0) {
      errno = ENOSPC;
      return false;
    }
    const auto done = static_cast<std::size_t>(std::max(wrote, ssize_t{0}));
    bytes = bytes.subspan(done);
    offset += done;
  }
  return true;
}

}  // namespace lockstep::data
