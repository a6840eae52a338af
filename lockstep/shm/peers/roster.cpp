#include "lockstep/shm/peers/roster.h"

#include "lockstep/shm/peers/call.h"

namespace lockstep::shm {

Roster::Roster(int rank, const Memory& memory, std::vector<Peer> peers)
    : rank_(rank), memory_(memory), peers_(std::move(peers)) {
  for (const auto& other : peers_) {
    processes_.push_back(Liveness::of_this_process().watch(other.process));
  }
}

std::string Roster::who(int rank) const {
  const auto& other = peer(rank);
  return "rank " + std::to_string(other.number < 0 ? rank : other.number) + " (pid " +
         std::to_string(other.process.pid) + " on " + other.host + ")";
}

std::string Roster::self() const {
  const int number = peer(rank_).number;
  const std::string size = std::to_string(memory_.layout().size);
  return number < 0 ? "rank " + std::to_string(rank_) + " of " + size
                    : "rank " + std::to_string(number) + ", one of " + size + " on its host";
}

std::string Roster::last_call_of(int rank) const {
  const Control& control = memory_.control(rank);
  const Announcement* latest = &control.announcements[0];
  if (control.announcements[1].sequence.load(std::memory_order_relaxed) >
      latest->sequence.load(std::memory_order_relaxed)) {
    latest = &control.announcements[1];
  }
  const auto sequence = latest->sequence.load(std::memory_order_relaxed);
  const std::string doing = text_of(progress_of(rank));
  return (doing.empty() ? "" : doing + ", ") +
         (sequence == 0 ? "it has called no collective yet"
                        : "its last call: " + Call::read_from(*latest).text(sequence));
}

Progress Roster::progress_of(int rank) const {
  return unpack_progress(memory_.control(rank).progress.load(std::memory_order_relaxed));
}

std::optional<std::string> Roster::saving_among(const std::vector<int>& ranks) const {
  for (const int rank : ranks) {
    const auto progress = progress_of(rank);
    if (progress.phase == Phase::kSaving && !is_stopped(rank)) {
      return who(rank) + " is busy: " + text_of(progress);
    }
  }
  return std::nullopt;
}

void Roster::look() const { Liveness::of_this_process().look(); }

std::optional<int> Roster::ended_by(int rank) const {
  return processes_[static_cast<std::size_t>(rank)]->ended_by();
}

bool Roster::is_stopped(int rank) const {
  return state_of(peer(rank).process).life == Life::kStopped;
}

}  // namespace lockstep::shm
