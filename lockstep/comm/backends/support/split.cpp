#include "lockstep/comm/backends/support/split.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/backends/support/arguments.h"

namespace lockstep::comm {

c10::intrusive_ptr<c10d::Backend> split_backend(
    const BackendRequest& parent, const c10::intrusive_ptr<c10d::Store>& store,
    const std::vector<int>& ranks, const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const std::string what =
      "split on rank " + std::to_string(parent.rank) + " of " + std::to_string(parent.size);
  for (const int rank : ranks) {
    require_rank(rank, parent.size, "rank of the new group", what);
    if (std::count(ranks.begin(), ranks.end(), rank) != 1) {
      throw UsageError(what + ": the ranks are {" + join_numbers(ranks) +
                       "}, expected each to appear once");
    }
  }
  const auto here = std::find(ranks.begin(), ranks.end(), parent.rank);
  if (here == ranks.end()) {
    return nullptr;
  }
  BackendRequest request = parent;
  request.store = store;
  request.rank = static_cast<int>(here - ranks.begin());
  request.size = static_cast<int>(ranks.size());
  if (options) {
    request.timeout = options->timeout;
  }
  request.connect_timeout = request.timeout;
  return BackendRegistry::built_in().make(parent.name.empty() ? "shm" : parent.name, request);
}

}  // namespace lockstep::comm
