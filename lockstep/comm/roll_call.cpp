#include "lockstep/comm/roll_call.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::milliseconds kQuietly{10'000};  // Before it says whom it waits for.

std::string roll_key(int rank) { return "roll/" + std::to_string(rank); }

std::string write_entry(const RollEntry& entry) {
  return std::to_string(entry.rank) + "\n" + std::to_string(entry.size) + "\n" + entry.backend +
         "\n" + entry.text;
}

RollEntry read_entry(const std::string& entry) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  for (auto end = entry.find('\n'); lines.size() < 3 && end != std::string::npos;
       end = entry.find('\n', at)) {
    lines.push_back(entry.substr(at, end - at));
    at = end + 1;
  }
  const auto rank = lines.size() == 3 ? parse_int(lines[0]) : std::nullopt;
  const auto size = lines.size() == 3 ? parse_int(lines[1]) : std::nullopt;
  if (!rank || !size) {
    throw PeerError(
        "a rank left something in the store that is none of this lockstep's; all "
        "ranks need the same version");
  }
  return {.rank = static_cast<int>(*rank),
          .size = static_cast<int>(*size),
          .backend = lines[2],
          .text = entry.substr(at)};
}

void require_same_group(const RollEntry& mine, const RollEntry& theirs) {
  const auto describe = [](const RollEntry& entry) {
    return "rank " + std::to_string(entry.rank) + " was started with backend '" + entry.backend +
           "' for a group of " + std::to_string(entry.size);
  };
  if (mine.size != theirs.size || mine.backend != theirs.backend) {
    throw UsageError(describe(mine) + ", " + describe(theirs) +
                     "; all ranks need the same backend and size");
  }
}

std::vector<int> ranks_not_there(c10d::Store& store, int size) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) {
    if (!store.check({roll_key(rank)})) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

std::string list_ranks(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + join_numbers(ranks);
}

// Those who did not come within that time.
std::vector<int> wait_for_all(c10d::Store& store, int size, std::chrono::milliseconds time) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size; ++rank) {
    keys.push_back(roll_key(rank));
  }
  try {
    store.wait(keys, time);
    return {};
  } catch (const std::exception&) {  // If the store is gone, asking again says so.
    return ranks_not_there(store, size);
  }
}

}  // namespace

void require_same_as_first(c10d::Store& store, const RollEntry& mine) {
  require_same_group(mine, read_entry(store.compareSet("roll/first", "", write_entry(mine))));
}

std::vector<std::string> call_roll(c10d::Store& store, const RollEntry& mine,
                                   std::chrono::milliseconds timeout) {
  const auto deadline = Deadline::in(timeout);
  store.set(roll_key(mine.rank), write_entry(mine));
  require_same_as_first(store, mine);
  auto absent = wait_for_all(store, mine.size, std::min(deadline.as_timeout(), kQuietly));
  if (!absent.empty() && !deadline.passed()) {
    TORCH_WARN("rank ", mine.rank, " of ", mine.size, " waits for ", list_ranks(absent),
               " to join, for ", to_text(deadline.remaining()), " at most");
    absent = wait_for_all(store, mine.size, deadline.as_timeout());
  }
  if (!absent.empty()) {
    throw AbsentRanks("rank " + std::to_string(mine.rank) + " of " + std::to_string(mine.size) +
                      " waited " + to_text(timeout) + ", but " + list_ranks(absent) +
                      " did not join; see the log there, or raise the timeout");
  }
  std::vector<std::string> texts;
  for (int rank = 0; rank < mine.size; ++rank) {
    auto theirs = read_entry(store.get_to_str(roll_key(rank)));
    require_same_group(mine, theirs);
    texts.push_back(std::move(theirs.text));
  }
  return texts;
}

}  // namespace lockstep::comm
