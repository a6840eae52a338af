// Waiting beside the ranks of a host for something that they do not make: a GPU, say.
#include "lockstep/comm/backends/shm/backend.h"

namespace lockstep::comm {

void ShmBackend::wait_for(const std::string& what, const std::function<bool()>& is_done,
                          Deadline deadline) {
  auto& watch = group_->team->watch();
  const auto is_behind_this = [&](int rank) {
    return is_behind(watch.progress_of(rank), watch.progress_of(getRank()));
  };
  const auto others_that = [this](const std::function<bool(int)>& count) {
    std::vector<int> ranks;
    for (int rank = 0; rank < getSize(); ++rank) {
      if (rank != getRank() && count(rank)) {
        ranks.push_back(rank);
      }
    }
    return ranks;
  };
  watch.wait({.what = [&] { return what; },
              .ready = is_done,
              .awaited = [&] { return others_that(is_behind_this); },
              // A rank that has done as much as this one may leave.
              .needed =
                  [&] {
                    return others_that(
                        [&](int rank) { return !watch.has_left(rank) || is_behind_this(rank); });
                  },
              .deadline = deadline,
              .rings = false,
              .without_awaited = "no rank of this host is behind this one, which is " +
                                 place_of(watch.progress_of(getRank()))},
             shm::Watch::Then::kBreak);
}

}  // namespace lockstep::comm
