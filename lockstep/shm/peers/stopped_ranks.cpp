#include "lockstep/shm/peers/stopped_ranks.h"

#include <algorithm>

namespace lockstep::shm {
namespace {

constexpr std::chrono::milliseconds kLook{250};
constexpr std::size_t kMostAtOnce = 8;
// A process that is stopped only for a moment (a debugger, job control) is not reported.
constexpr std::chrono::milliseconds kStoppedForGood{1000};

}  // namespace

StoppedRanks::StoppedRanks(std::function<bool(int)> is_stopped)
    : is_stopped_(std::move(is_stopped)), next_look_(Clock::now() + kLook) {}

std::vector<int> StoppedRanks::find(const std::vector<int>& awaited) {
  std::vector<int> news;
  if (Clock::now() < next_look_) {
    return news;
  }
  next_look_ = Clock::now() + kLook;
  for (std::size_t i = 0; i < std::min(awaited.size(), kMostAtOnce); ++i) {
    const int rank = awaited[turn_++ % awaited.size()];
    if (is_news(rank)) {
      news.push_back(rank);
    }
  }
  return news;
}

bool StoppedRanks::is_news(int rank) {
  if (!is_stopped_(rank)) {
    since_.erase(rank);
    return false;
  }
  const auto [entry, is_new] = since_.try_emplace(rank, Clock::now());
  if (entry->second == Clock::time_point::max() || Clock::now() - entry->second < kStoppedForGood) {
    return false;
  }
  entry->second = Clock::time_point::max();
  return true;
}

}  // namespace lockstep::shm
