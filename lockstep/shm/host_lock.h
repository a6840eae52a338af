// One holder at a time among the processes of this host, without a name that could be left behind.
#pragma once

#include <chrono>

#include "lockstep/base/fd.h"

namespace lockstep::shm {

// "Host" is the pid namespace, as for groups in shared memory. The kernel frees the lock when its
// holder ends, however it ends. Other users' processes can take it too, and might keep it: after
// `patience` the caller goes on without it.
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
