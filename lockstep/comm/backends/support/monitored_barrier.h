// c10d's monitoredBarrier: the barrier at which rank 0 keeps the list of who has come.
//
// Its errors carry Gloo's words, because programs and PyTorch's tests look for them. As with Gloo
// only rank 0 watches the time, so that no other rank ends the job before rank 0 has said who is
// missing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/base/deadline.h"

namespace lockstep::comm {

struct MonitoredBarrier {
  int rank = 0;
  int size = 1;
  std::uint64_t number = 0;                   // This barrier's, the same on all ranks.
  std::chrono::milliseconds timeout{};        // Rank 0's.
  std::chrono::milliseconds group_timeout{};  // The others'.
  bool wait_all_ranks = false;

  // Empty messages.
  std::function<void(int to, std::uint64_t tag)> send;
  // Returns what waits for it, and throws PeerError if it does not come.
  using Wait = std::function<void(Deadline deadline)>;
  std::function<Wait(int from, std::uint64_t tag)> receive;
  // Ends the group with this reason: the ranks that came wait without an end of their own.
  std::function<void(const std::string& reason)> break_up;

  // Throws PeerError if a rank does not come.
  void run() const;
};

}  // namespace lockstep::comm
