#include "lockstep/shm/mailbox.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"

namespace lockstep::shm {
namespace {

std::string text_of(const Receipt& receipt, const Team& team) {
  return "recv of " + std::to_string(receipt.bytes) + " bytes from " +
         (receipt.source == kAnySource ? "any rank" : "rank " + std::to_string(receipt.source)) +
         " with tag " + std::to_string(receipt.tag) + " on rank " + std::to_string(team.rank()) +
         " of " + std::to_string(team.size());
}

}  // namespace

Mailbox::Mailbox(Team& team)
    : team_(team),
      sent_(static_cast<std::size_t>(team.size())),
      places_(static_cast<std::size_t>(team.size()), std::vector<std::size_t>(kLetters)) {}

// Letters that nobody took yet can still be taken: the memory stays as long as a peer maps it.
Mailbox::~Mailbox() = default;

void Mailbox::send(int destination, std::uint64_t tag, const std::byte* data, std::size_t bytes) {
  const auto to = static_cast<std::size_t>(destination);
  const std::size_t place = team_.memory()
                                ->arena(team_.rank())
                                .take(bytes, "send to rank " + std::to_string(destination) +
                                                 " on rank " + std::to_string(team_.rank()));
  if (bytes > 0) {
    std::memcpy(team_.memory()->at(team_.rank(), place, bytes, 1), data, bytes);
  }
  {
    const std::lock_guard lock(mutex_);
    unposted_.push_back({destination, ++sent_[to], tag, place, bytes});
    progress_locked();
  }
  team_.watch().ring(destination);
}

std::shared_ptr<Receipt> Mailbox::post(Receipt wanted) {
  auto receipt = std::make_shared<Receipt>(std::move(wanted));
  const std::lock_guard lock(mutex_);
  open_.push_back(receipt);
  return receipt;
}

bool Mailbox::progress() {
  const std::lock_guard lock(mutex_);
  progress_locked();
  return unposted_.empty();
}

bool Mailbox::is_done(const Receipt& receipt) {
  const std::lock_guard lock(mutex_);
  progress_locked();
  return receipt.done;
}

void Mailbox::wait(const Receipt& receipt, Deadline deadline) {
  if (!is_done(receipt)) {
    team_.watch().wait({.what = [&] { return text_of(receipt, team_); },
                        .ready = [&] { return is_done(receipt); },
                        .awaited =
                            [&] {
                              if (receipt.source != kAnySource) {
                                return std::vector<int>{receipt.source};
                              }
                              std::vector<int> all(static_cast<std::size_t>(team_.size()));
                              std::iota(all.begin(), all.end(), 0);
                              return all;
                            },
                        .deadline = deadline},
                       Watch::Then::kGoOn);
  }
  const std::lock_guard lock(mutex_);
  if (!receipt.error.empty()) {
    throw UsageError(text_of(receipt, team_) + ": " + receipt.error);
  }
}

void Mailbox::progress_locked() {
  for (int rank = 0; rank < team_.size(); ++rank) {
    reclaim(rank);
  }
  // A message waits behind an older one to the same rank only.
  std::erase_if(unposted_, [&](const Parcel& parcel) { return try_post(parcel); });
  for (auto receipt = open_.begin(); receipt != open_.end();) {
    receipt = deliver(**receipt) ? open_.erase(receipt) : std::next(receipt);
  }
}

bool Mailbox::try_post(const Parcel& parcel) {
  Letter* letters = team_.memory()->letters(team_.rank(), parcel.destination);
  auto& places = places_[static_cast<std::size_t>(parcel.destination)];
  const auto free = std::find(places.begin(), places.end(), std::size_t{0});
  if (free == places.end()) {
    return false;
  }
  *free = parcel.place;
  Letter& letter = letters[free - places.begin()];
  letter.number.store(parcel.number, std::memory_order_relaxed);
  letter.tag.store(parcel.tag, std::memory_order_relaxed);
  letter.place.store(parcel.place, std::memory_order_relaxed);
  letter.bytes.store(parcel.bytes, std::memory_order_relaxed);
  letter.state.store(Letter::kPosted);  // Publishes the message; see Watch::ring().
  return true;
}

void Mailbox::reclaim(int destination) {
  Letter* letters = team_.memory()->letters(team_.rank(), destination);
  auto& places = places_[static_cast<std::size_t>(destination)];
  for (std::size_t i = 0; i < kLetters; ++i) {
    if (places[i] != 0 && letters[i].state.load() == Letter::kFree) {
      team_.memory()->arena(team_.rank()).give_back(places[i]);
      places[i] = 0;
    }
  }
}

bool Mailbox::deliver(Receipt& receipt) {
  for (int from = 0; from < team_.size(); ++from) {
    if (receipt.source != kAnySource && receipt.source != from) {
      continue;
    }
    Letter* letters = team_.memory()->letters(from, team_.rank());
    Letter* oldest = nullptr;
    std::uint64_t number = 0;
    for (Letter* letter = letters; letter != letters + kLetters; ++letter) {
      if (letter->state.load() == Letter::kPosted &&
          letter->tag.load(std::memory_order_relaxed) == receipt.tag) {
        const auto this_number = letter->number.load(std::memory_order_relaxed);
        if (oldest == nullptr || this_number < number) {
          oldest = letter;
          number = this_number;
        }
      }
    }
    if (oldest != nullptr) {
      copy_from(*oldest, from, receipt);
      return true;
    }
  }
  return false;
}

void Mailbox::copy_from(Letter& letter, int from, Receipt& receipt) {
  const auto bytes = letter.bytes.load(std::memory_order_relaxed);
  const auto* data =
      team_.memory()->at(from, letter.place.load(std::memory_order_relaxed), bytes, 1);
  if (bytes != receipt.bytes || data == nullptr) {
    receipt.error = "rank " + std::to_string(from) + " sent " + std::to_string(bytes) + " bytes";
  } else if (bytes > 0) {
    std::memcpy(receipt.data, data, bytes);
  }
  receipt.from = from;
  receipt.done = true;
  letter.state.store(Letter::kFree);
  team_.watch().ring(from);  // It may wait for a free letter.
}

}  // namespace lockstep::shm
