// c10d's monitoredBarrier: the barrier at which rank 0 keeps the list of who has come.
//
// Its errors carry Gloo's words, because programs and PyTorch's tests look for them. As with Gloo
// only rank 0 watches the time, so that no other rank ends the job before rank 0 has said who is
// missing.
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/shm_backend.h"

namespace lockstep::comm {
namespace {

// c10d's tags are ints: no message of a user can have these. Each barrier has its own two, so that
// one which timed out leaves nothing to the next.
struct Tags {
  explicit Tags(std::uint64_t number) : arrived((std::uint64_t{1} << 40) + 2 * number) {}
  std::uint64_t arrived;
  std::uint64_t go_on = arrived + 1;
};

// What the list looked like when the time was over.
struct RollCall {
  std::vector<int> came;
  std::vector<int> missing;
  std::string why;  // Of the first that is missing.
};

RollCall call_roll(ShmGroup& group, const Tags& tags, Deadline deadline, bool wait_all_ranks) {
  RollCall roll;
  std::vector<std::shared_ptr<shm::Receipt>> receipts;
  for (int rank = 1; rank < group.team->size(); ++rank) {
    receipts.push_back(group.mailbox.post({.source = rank, .tag = tags.arrived}));
  }
  for (const auto& receipt : receipts) {
    try {
      group.mailbox.wait(*receipt, deadline);
      roll.came.push_back(receipt->source);
    } catch (const PeerError& error) {
      roll.missing.push_back(receipt->source);
      if (roll.why.empty()) {
        roll.why = error.what();
      }
      if (!wait_all_ranks) {
        break;
      }
    }
  }
  return roll;
}

void report_to_rank_0(ShmGroup& group, const Tags& tags, Deadline deadline) {
  group.mailbox.send(0, tags.arrived, nullptr, 0);
  const auto receipt = group.mailbox.post({.source = 0, .tag = tags.go_on});
  try {
    group.mailbox.wait(*receipt, deadline);
  } catch (const PeerError& error) {
    throw PeerError("Rank " + std::to_string(group.team->rank()) +
                    " successfully reached monitoredBarrier, but received errors while waiting for "
                    "send/recv from rank 0; see the log of rank 0 for who is missing [" +
                    error.what() + "]");
  }
}

}  // namespace

void ShmBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  group_->team->watch().throw_if_broken();
  const Tags tags(monitored_barriers_++);
  if (getRank() != 0) {
    report_to_rank_0(*group_, tags, Deadline::in(timeout_));
    return;
  }
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? timeout_.load() : options.timeout;
  const auto deadline = Deadline::in(timeout);
  std::string verdict;
  if (timeout <= std::chrono::milliseconds(0) && getSize() > 1) {
    verdict = "Rank 0 timed out in monitoredBarrier after " + to_text(timeout) +
              ", before it looked for the others";
  } else if (const auto roll = call_roll(*group_, tags, deadline, wait_all_ranks);
             !roll.missing.empty()) {
    verdict =
        std::string(roll.missing.size() == 1 ? "Rank " : "Ranks ") + join_numbers(roll.missing) +
        " failed to pass monitoredBarrier in " + to_text(timeout) +
        "; came: " + (roll.came.empty() ? "none" : join_numbers(roll.came)) + " [" + roll.why + "]";
  }
  if (!verdict.empty()) {
    // The ranks that came wait without an end of their own.
    group_->team->watch().break_up(shm::Watch::Reason::kAborted, verdict);
    throw PeerError(verdict);
  }
  for (int rank = 1; rank < getSize(); ++rank) {
    group_->mailbox.send(rank, tags.go_on, nullptr, 0);
  }
}

}  // namespace lockstep::comm
