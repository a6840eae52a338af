// Whether all hosts of a lane are about to do the same.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/host_map.h"
#include "lockstep/comm/watched_wait.h"

namespace lockstep::comm {

// One question to the other hosts, asked at once and answered when require() is called, so that
// work inside the host can be done in between.
class HostAgreement {
 public:
  // All ranks of the lane ask, whatever they call. `lane` is null for a rank without one, which
  // is told nothing.
  HostAgreement(const c10::intrusive_ptr<c10d::Backend>& lane, std::string call,
                const WatchedWait& waiter, Deadline deadline);

  // Throws PeerError, on all hosts, that shows all sides if their calls differ.
  void require(const HostMap& map, Deadline deadline) const;

 private:
  c10::intrusive_ptr<c10d::Backend> lane_;
  std::string call_;
  const WatchedWait& waiter_;
  at::Tensor numbers_;
  c10::intrusive_ptr<c10d::Work> work_;
};

}  // namespace lockstep::comm
