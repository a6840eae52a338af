#include "lockstep/shm/collectives/mailbox.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "lockstep/base/error.h"

namespace lockstep::shm {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;  // Published by the link to the letter.

// A corrupted list may be a ring, so it is followed only this far.
constexpr std::size_t kMostWaiting = std::size_t{1} << 20;

std::string text_of(const Receipt& receipt, const Team& team) {
  return "recv of " + std::to_string(receipt.bytes) + " bytes from " +
         (receipt.source == kAnySource ? "any rank" : "rank " + std::to_string(receipt.source)) +
         " with tag " + std::to_string(receipt.tag) + " on rank " + std::to_string(team.rank()) +
         " of " + std::to_string(team.size());
}

}  // namespace

Mailbox::Mailbox(Team& team) : team_(team), chains_(static_cast<std::size_t>(team.size())) {}

Letter* Mailbox::letter_at(int from, std::uint64_t place) const {
  return reinterpret_cast<Letter*>(team_.memory()->at(from, place, sizeof(Letter), kLine));
}

void Mailbox::send(int destination, std::uint64_t tag, const std::byte* data, std::size_t bytes) {
  team_.watch().require_member();
  const int me = team_.rank();
  const std::uint64_t place = team_.memory()->arena(me).take(
      sizeof(Letter) + bytes, "send to rank " + std::to_string(destination) + " on rank " +
                                  std::to_string(me) + " of " + std::to_string(team_.size()));
  auto* letter = new (team_.memory()->at(me, place, sizeof(Letter), kLine)) Letter{};
  letter->tag.store(tag, kRelaxed);
  letter->bytes.store(bytes, kRelaxed);
  if (bytes > 0) {
    std::memcpy(team_.memory()->at(me, place + sizeof(Letter), bytes, 1), data, bytes);
  }
  {
    const std::lock_guard lock(mutex_);
    free_taken(destination);
    Chain& chain = chains_[static_cast<std::size_t>(destination)];
    // The last letter is never freed: the receiver may stand on it, waiting for the next.
    Word& link = chain.sent == 0 ? team_.memory()->letter_box(me, destination).first
                                 : letter_at(me, chain.outgoing.back().place)->next;
    chain.outgoing.push_back({place, ++chain.sent});
    link.store(place);  // Publishes the letter; see Watch::ring().
  }
  team_.watch().ring(destination);
}

void Mailbox::free_taken(int destination) {
  Chain& chain = chains_[static_cast<std::size_t>(destination)];
  const auto seen = team_.memory()->letter_box(team_.rank(), destination).seen.load();
  std::erase_if(chain.outgoing, [&](const Entry& entry) {
    const bool free = entry.number < seen && entry.number < chain.sent &&
                      letter_at(team_.rank(), entry.place)->taken.load() != 0;
    if (free) {
      team_.memory()->arena(team_.rank()).give_back(entry.place);
    }
    return free;
  });
}

std::shared_ptr<Receipt> Mailbox::post(Receipt wanted) {
  team_.watch().require_member();
  auto receipt = std::make_shared<Receipt>(std::move(wanted));
  const std::lock_guard lock(mutex_);
  open_.push_back(receipt);
  return receipt;
}

bool Mailbox::is_done(const Receipt& receipt) {
  if (has_come(receipt)) {
    return true;
  }
  try {
    team_.watch().look(wait_for(receipt, Deadline::in(std::chrono::seconds(0))),
                       Watch::Then::kGoOn);
    return false;
  } catch (const PeerError&) {
    withdraw(receipt, std::current_exception());
    return true;
  }
}

bool Mailbox::has_come(const Receipt& receipt) {
  team_.watch().require_member();
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < team_.size(); ++rank) {
    look(rank);
  }
  for (auto open = open_.begin(); open != open_.end();) {
    open = deliver(**open) ? open_.erase(open) : std::next(open);
  }
  return receipt.done;
}

// Otherwise it would take the message that a later receive is waiting for.
void Mailbox::withdraw(const Receipt& receipt, std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(open_.begin(), open_.end(),
                                  [&](const auto& open) { return open.get() == &receipt; });
  if (found != open_.end()) {  // Else another thread has delivered or withdrawn it by now.
    (*found)->failure = std::move(failure);
    (*found)->done = true;
    open_.erase(found);
  }
}

Wait Mailbox::wait_for(const Receipt& receipt, Deadline deadline) {
  const auto awaited = [&] {
    if (receipt.source != kAnySource) {
      return std::vector<int>{receipt.source};
    }
    // Ranks that have left will send nothing more, which matters only if all others have left.
    std::vector<int> all;
    std::vector<int> present;
    for (int rank = 0; rank < team_.size(); ++rank) {
      if (rank != team_.rank()) {
        all.push_back(rank);
        if (!team_.watch().has_left(rank)) {
          present.push_back(rank);
        }
      }
    }
    return present.empty() ? all : present;
  };
  return {.what = [&] { return text_of(receipt, team_); },
          .ready = [&] { return has_come(receipt); },
          .awaited = awaited,
          .deadline = deadline};
}

void Mailbox::complete(const Receipt& receipt, Deadline deadline) {
  if (has_come(receipt)) {
    return;
  }
  try {
    team_.watch().wait(wait_for(receipt, deadline), Watch::Then::kGoOn);
  } catch (const PeerError&) {
    withdraw(receipt, std::current_exception());
  }
}

void Mailbox::wait(const Receipt& receipt, Deadline deadline) {
  complete(receipt, deadline);
  const std::lock_guard lock(mutex_);
  if (receipt.failure) {
    std::rethrow_exception(receipt.failure);
  }
}

// Takes note of the letters that have come; each is looked at once.
void Mailbox::look(int from) {
  Chain& chain = chains_[static_cast<std::size_t>(from)];
  LetterBox& box = team_.memory()->letter_box(from, team_.rank());
  const auto before = chain.seen;
  while (chain.incoming.size() < kMostWaiting) {
    const Word& link = chain.cursor == 0 ? box.first : letter_at(from, chain.cursor)->next;
    const auto place = link.load();
    const Letter* letter = place == 0 ? nullptr : letter_at(from, place);
    if (letter == nullptr) {
      break;
    }
    chain.cursor = place;
    ++chain.seen;
    chain.incoming.push_back({place, letter->tag.load(kRelaxed), letter->bytes.load(kRelaxed)});
  }
  if (chain.seen != before) {
    box.seen.store(chain.seen);
  }
}

bool Mailbox::deliver(Receipt& receipt) {
  for (int from = 0; from < team_.size(); ++from) {
    if (receipt.source != kAnySource && receipt.source != from) {
      continue;
    }
    auto& incoming = chains_[static_cast<std::size_t>(from)].incoming;
    const auto found = std::find_if(incoming.begin(), incoming.end(), [&](const Incoming& letter) {
      return letter.tag == receipt.tag;
    });
    if (found != incoming.end()) {
      copy(*found, from, receipt);
      incoming.erase(found);
      return true;
    }
  }
  return false;
}

void Mailbox::copy(const Incoming& letter, int from, Receipt& receipt) {
  const auto* data =
      letter.bytes == receipt.bytes
          ? team_.memory()->at(from, letter.place, sizeof(Letter) + letter.bytes, kLine)
          : nullptr;
  if (data == nullptr) {
    receipt.failure = std::make_exception_ptr(UsageError(text_of(receipt, team_) + ": rank " +
                                                         std::to_string(from) + " sent " +
                                                         std::to_string(letter.bytes) + " bytes"));
  } else if (letter.bytes > 0) {
    std::memcpy(receipt.data, data + sizeof(Letter), letter.bytes);
  }
  receipt.from = from;
  receipt.done = true;
  letter_at(from, letter.place)->taken.store(1);
}

}  // namespace lockstep::shm
