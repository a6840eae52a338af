// Why a group over several hosts ended: one reason for all ranks.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/hosts/host_map.h"

namespace lockstep::comm {

// What this error of rank `rank` says of the group: which host is gone or late, or what went wrong
// on this rank alone. `silent`: addresses that do not answer.
PeerError reason_of(const std::exception& error, const HostMap& map, int rank,
                    const std::vector<std::string>& silent);

// The reason that the first rank of the group gave, which is this one if no other came before.
// Takes a second at most: a store whose own host is gone does not answer.
PeerError first_reason(const c10::intrusive_ptr<c10d::Store>& store, const PeerError& reason);

// Whether a rank has given one already. False also if the store does not answer within a second,
// and while it owes the answer to the question before: `asked` is true then.
bool has_reason(const c10::intrusive_ptr<c10d::Store>& store,
                const std::shared_ptr<std::atomic<bool>>& asked);

}  // namespace lockstep::comm
