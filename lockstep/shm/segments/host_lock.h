// A lock that one process of this host holds at a time, without a name that could be left behind.
#pragma once

#include <chrono>

#include "lockstep/base/fd.h"

namespace lockstep::shm {

// "Host" is the pid namespace, as for groups in shared memory. The kernel frees the lock when its
// holder ends, however it ends. Processes of other users can take the lock too and might keep it,
// so the caller goes on without it after `patience`.
class HostLock {
 public:
  explicit HostLock(std::chrono::milliseconds patience = std::chrono::seconds(30));
  ~HostLock();
  HostLock(const HostLock&) = delete;
  HostLock& operator=(const HostLock&) = delete;

  [[nodiscard]] bool is_held() const { return held_; }

 private:
  UniqueFd fd_;
  bool held_ = false;
};

}  // namespace lockstep::shm
