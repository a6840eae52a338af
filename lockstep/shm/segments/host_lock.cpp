#include "lockstep/shm/segments/host_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <thread>

#include "lockstep/base/deadline.h"

namespace lockstep::shm {

// Every process of a pid namespace finds the same inode behind this name, and none can remove it.
HostLock::HostLock(std::chrono::milliseconds patience)
    : fd_(::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC)) {
  const auto deadline = Deadline::in(patience);
  std::chrono::microseconds pause{50};
  while (fd_ && !(held_ = ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) && !deadline.passed()) {
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(5000));
  }
}

// A fork may have the descriptor too: closing this one would not free the lock.
HostLock::~HostLock() {
  if (held_) {
    ::flock(fd_.get(), LOCK_UN);
  }
}

}  // namespace lockstep::shm
