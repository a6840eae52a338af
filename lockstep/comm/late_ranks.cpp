#include "lockstep/comm/late_ranks.h"

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "lockstep/base/process/crash_report.h"
#include "lockstep/base/text/text.h"

namespace lockstep::comm {
namespace {

struct Groups {
  std::timed_mutex mutex;
  std::vector<const LateRanksInCrashReport*> known;
};

// Never destroyed: a process may end while its groups do.
Groups& groups() {
  static auto* const all = new Groups;  // NOLINT(cppcoreguidelines-owning-memory)
  return *all;
}

std::string remark_on(const std::string& text) {
  if (!contains(text, "Watchdog caught collective operation timeout")) {
    return "";
  }
  std::string remark;
  const std::unique_lock lock(groups().mutex, std::chrono::seconds(1));
  if (lock.owns_lock()) {  // Another thread may have ended while it had it.
    for (const auto* const group : groups().known) {
      remark += group->text();
    }
  }
  return remark;
}

}  // namespace

std::string text_of_late_ranks(const ProgressBoard& board, int rank, int size) {
  const auto own = board.progress_of(rank);
  if (!own || *own == Progress()) {
    return "";
  }
  std::vector<std::string> behind;
  for (int other = 0; other < size; ++other) {
    const auto progress = board.progress_of(other);
    if (progress && is_behind(*progress, *own)) {
      behind.push_back("rank " + std::to_string(other) + " (" + place_of(*progress) + ")");
    }
  }
  const std::string self = "this rank, which is " + text_of(*own);
  return behind.empty() ? "; no rank of this host is behind " + self
                        : "; behind " + self + ": " + join(behind, ", ");
}

LateRanksInCrashReport::LateRanksInCrashReport(const ProgressBoard& board, int rank, int size,
                                               std::string group)
    : board_(board), rank_(rank), size_(size), group_(std::move(group)) {
  const std::lock_guard lock(groups().mutex);
  groups().known.push_back(this);
  set_crash_remark(remark_on);
}

LateRanksInCrashReport::~LateRanksInCrashReport() {
  const std::lock_guard lock(groups().mutex);
  std::erase(groups().known, this);
}

std::string LateRanksInCrashReport::text() const {
  const auto places = text_of_late_ranks(board_, rank_, size_);
  return places + (places.empty() || group_.empty() ? "" : " (group " + group_ + ")");
}

}  // namespace lockstep::comm
