// Checks that all hosts of a lane call the same collective; small tensors travel with the check.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/backends/hosts/gloo_wait.h"
#include "lockstep/comm/backends/hosts/host_map.h"

namespace lockstep::comm {

// The first thing that each collective sends between hosts. Its size is the same for every call:
// hosts whose calls differ understand each other. Sent at once and read when require() is called,
// so that work inside the host can be done in between.
class CallCheck {
 public:
  // What can travel along, in bytes: more than 1 KiB, so that small tensors need no second
  // message, and little enough that a barrier does not notice (15 us at 1 Gbit/s).
  static constexpr std::size_t kPayloadBytes = 1920;

  // Every rank of the lane sends its check first, whichever collective it calls. A rank without a
  // lane passes null, and receives nothing. `payload` has at most kPayloadBytes.
  CallCheck(const c10::intrusive_ptr<c10d::Backend>& lane, const std::string& call,
            const GlooWait& waiter, Deadline deadline, std::span<const std::byte> payload = {});

  // Throws PeerError, on all hosts, that shows all calls if they differ.
  void require(const HostMap& map) const;

  // What that host's rank of the lane sent along; after require(), and not without a lane. Aligned
  // for every element type.
  [[nodiscard]] const std::byte* payload_of(int host) const;

 private:
  const GlooWait& waiter_;
  at::Tensor all_;  // One message of each host.
  c10::intrusive_ptr<c10d::Work> work_;
};

}  // namespace lockstep::comm
