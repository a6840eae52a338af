#include "lockstep/comm/backends/support/monitored_barrier.h"

#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"

namespace lockstep::comm {
namespace {

// c10d's tags are ints: no message of a user can have these. Each barrier has its own two, so that
// one which timed out leaves nothing to the next.
struct Tags {
  explicit Tags(std::uint64_t number) : arrived((std::uint64_t{1} << 48) + 2 * number) {}
  std::uint64_t arrived;
  std::uint64_t go_on = arrived + 1;
};

// When the time was over.
struct Arrivals {
  std::vector<int> came;
  std::vector<int> missing;
  std::string why;  // Why the first of them is missing.
};

Arrivals wait_for_arrivals(const MonitoredBarrier& barrier, const Tags& tags) {
  Arrivals arrivals;
  const auto deadline = Deadline::in(barrier.timeout);
  std::vector<MonitoredBarrier::Wait> waits{nullptr};  // By rank.
  for (int rank = 1; rank < barrier.size; ++rank) {
    waits.push_back(barrier.receive(rank, tags.arrived));
  }
  for (int rank = 1; rank < barrier.size; ++rank) {
    try {
      waits[static_cast<std::size_t>(rank)](deadline);
      arrivals.came.push_back(rank);
    } catch (const PeerError& error) {
      arrivals.missing.push_back(rank);
      if (arrivals.why.empty()) {
        arrivals.why = error.what();
      }
      if (!barrier.wait_all_ranks) {
        break;
      }
    }
  }
  return arrivals;
}

void report_to_rank_0(const MonitoredBarrier& barrier, const Tags& tags) {
  barrier.send(0, tags.arrived);
  try {
    barrier.receive(0, tags.go_on)(Deadline::in(barrier.group_timeout));
  } catch (const PeerError& error) {
    throw PeerError("Rank " + std::to_string(barrier.rank) +
                    " successfully reached monitoredBarrier, but received errors while waiting for "
                    "send/recv from rank 0; see the log of rank 0 for who is missing [" +
                    error.what() + "]");
  }
}

}  // namespace

void MonitoredBarrier::run() const {
  const Tags tags(number);
  if (rank != 0) {
    report_to_rank_0(*this, tags);
    return;
  }
  std::string failure;
  if (timeout <= std::chrono::milliseconds(0) && size > 1) {
    failure = "Rank 0 timed out in monitoredBarrier after " + to_text(timeout) +
              ", before it looked for the others";
  } else if (const auto arrivals = wait_for_arrivals(*this, tags); !arrivals.missing.empty()) {
    failure = std::string(arrivals.missing.size() == 1 ? "Rank " : "Ranks ") +
              join_numbers(arrivals.missing) + " failed to pass monitoredBarrier in " +
              to_text(timeout) +
              "; came: " + (arrivals.came.empty() ? "none" : join_numbers(arrivals.came)) + " [" +
              arrivals.why + "]";
  }
  if (!failure.empty()) {
    break_up(failure);
    throw PeerError(failure);
  }
  for (int other = 1; other < size; ++other) {
    send(other, tags.go_on);
  }
}

}  // namespace lockstep::comm
