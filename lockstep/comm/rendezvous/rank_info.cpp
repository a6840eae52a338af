#include "lockstep/comm/rendezvous/rank_info.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "lockstep/base/deadline.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/rendezvous/rank_keys.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kListed = 16;  // Ranks that a message names.

std::vector<std::string> info_keys(int size) { return keys_of_ranks("rank_info", size); }
std::string info_key(int rank) { return "rank_info/" + std::to_string(rank); }

std::string write_entry(const RankInfo& entry) {
  return std::to_string(entry.rank) + "\n" + std::to_string(entry.size) + "\n" + entry.backend +
         "\n" + entry.text;
}

RankInfo read_entry(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  for (auto end = text.find('\n'); lines.size() < 3 && end != std::string::npos;
       end = text.find('\n', at)) {
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const auto rank = lines.size() == 3 ? parse_int(lines[0]) : std::nullopt;
  const auto size = lines.size() == 3 ? parse_int(lines[1]) : std::nullopt;
  if (!rank || !size) {
    throw PeerError(
        "a rank left something in the store that is none of this lockstep's; all ranks need the "
        "same version");
  }
  return {.rank = static_cast<int>(*rank),
          .size = static_cast<int>(*size),
          .backend = lines[2],
          .text = text.substr(at)};
}

bool same_group(const RankInfo& mine, const RankInfo& theirs) {
  return mine.size == theirs.size && mine.backend == theirs.backend;
}

std::string describe(const RankInfo& entry) {
  return "rank " + std::to_string(entry.rank) + " asks for " +
         (entry.backend.empty() ? "no backend" : "the backend '" + entry.backend + "'") +
         " and a group of " + std::to_string(entry.size);
}

void require_same_group(const RankInfo& mine, const RankInfo& theirs) {
  if (!same_group(mine, theirs)) {
    throw UsageError(describe(mine) + ", " + describe(theirs) +
                     "; all ranks need the same backend and size");
  }
}

bool store_may_be_older() {
  const auto environment = Environment::of_this_process();
  return environment.get("TORCHELASTIC_RUN_ID").has_value() ||
         environment.get("TORCHELASTIC_USE_AGENT_STORE").has_value();
}

// Returns the ranks that did not come within that time.
std::vector<int> wait_for_all(c10d::Store& store, int size, std::chrono::milliseconds time) {
  try {
    store.wait(info_keys(size), time);
    return {};
  } catch (const std::exception&) {  // If the store is gone, asking again says so.
    return ranks_not_there(store, size);
  }
}

void warn(c10d::Store& store, const RankInfo& mine, const std::vector<int>& absent,
          Deadline deadline) {
  const auto differ = differences(store, mine);
  TORCH_WARN("rank ", mine.rank, " of ", mine.size, " waits for ", list_ranks(absent),
             " to join, for ", to_text(deadline.remaining()), " at most",
             differ.empty() ? "" : "; " + differ);
}

}  // namespace

std::string list_ranks(std::vector<int> ranks) {
  const std::string noun = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t more = ranks.size() > kListed ? ranks.size() - kListed : 0;
  ranks.resize(ranks.size() - more);
  return noun + join_numbers(ranks) + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

void require_same_as_first(c10d::Store& store, const RankInfo& mine) {
  store.set(info_key(mine.rank), write_entry(mine));
  if (store_may_be_older()) {
    return;
  }
  std::string first;
  try {
    first = store.compareSet("rank_info/first", "", write_entry(mine));
  } catch (const std::exception&) {  // Not every store can; the group is formed without.
    return;
  }
  require_same_group(mine, read_entry(first));
}

bool are_all_there(c10d::Store& store, int size) { return store.check(info_keys(size)); }

std::vector<int> ranks_not_there(c10d::Store& store, int size) {
  return ranks_without(store, info_keys(size));
}

std::string differences(c10d::Store& store, const RankInfo& mine) {
  for (int rank = 0; rank < mine.size; ++rank) {
    if (rank == mine.rank || !store.check({info_key(rank)})) {
      continue;
    }
    const auto theirs = read_entry(store.get_to_str(info_key(rank)));
    if (!same_group(mine, theirs)) {
      return describe(theirs) + ", this one for the backend '" + mine.backend +
             "' and a group of " + std::to_string(mine.size);
    }
  }
  return "";
}

std::vector<std::string> gather_rank_infos(c10d::Store& store, const RankInfo& mine,
                                           std::chrono::milliseconds timeout,
                                           std::chrono::milliseconds patience) {
  const auto deadline = Deadline::in(timeout);
  require_same_as_first(store, mine);
  auto absent = wait_for_all(store, mine.size, std::min(deadline.as_timeout(), patience));
  if (!absent.empty() && !deadline.passed()) {
    warn(store, mine, absent, deadline);
    absent = wait_for_all(store, mine.size, deadline.as_timeout());
  }
  if (!absent.empty()) {
    const auto differ = differences(store, mine);
    throw AbsentRanks("rank " + std::to_string(mine.rank) + " of " + std::to_string(mine.size) +
                      " waited " + to_text(timeout) + ", but " + list_ranks(absent) +
                      " did not join; " +
                      (differ.empty() ? "see the log there, or raise the timeout" : differ));
  }
  std::vector<std::string> texts;
  for (int rank = 0; rank < mine.size; ++rank) {
    auto theirs = read_entry(store.get_to_str(info_key(rank)));
    if (!store_may_be_older()) {
      require_same_group(mine, theirs);
    }
    texts.push_back(std::move(theirs.text));
  }
  return texts;
}

}  // namespace lockstep::comm
