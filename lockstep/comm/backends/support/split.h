// c10d's split of a backend: some of its ranks as a group of their own.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/comm/backend_registry.h"

namespace lockstep::comm {

// All of `ranks` (numbers in the parent) call it with the same list; the first one becomes rank 0.
// `parent` is the request that the parent was made with. Returns null on a rank that is not in the
// list. Throws UsageError for an invalid list, PeerError if a rank does not come.
c10::intrusive_ptr<c10d::Backend> split_backend(
    const BackendRequest& parent, const c10::intrusive_ptr<c10d::Store>& store,
    const std::vector<int>& ranks, const c10::intrusive_ptr<c10d::Backend::Options>& options);

}  // namespace lockstep::comm
