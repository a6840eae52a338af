// What becomes of messages that are given up, and when another rank ends or leaves, or this one.
#include <algorithm>
#include <new>

#include "lockstep/net/exchange.h"

namespace lockstep::net {

namespace {

using Kind = Frame::Kind;

}  // namespace

// Why a message of anyone cannot come: a rank died, or all others have left. kNone if it can.
Failure Exchange::why_nobody() const {
  Failure why;
  bool is_anybody_there = false;
  for (int peer = 0; peer < peers_.size(); ++peer) {
    const Failure& gone = peers_.why_gone(peer);
    if (gone.kind == Failure::Kind::kDied) {
      return gone;
    }
    if (gone.kind == Failure::Kind::kNone) {
      is_anybody_there = is_anybody_there || peer != rank_;
    } else {
      why = gone;
    }
  }
  return is_anybody_there ? Failure() : why;
}

// The rank is gone: whatever was to go there or to come from there fails. A receive from any rank
// goes on waiting if this one left in order and others are there.
void Exchange::lose(int peer) {
  const Failure& failure = peers_.why_gone(peer);
  fail(sends_, failure, [&](const Message& message) { return message.peer_ == peer; });
  fail(receives_, failure, [&](const Message& message) { return message.peer_ == peer; });
  fail(questions_, failure, [&](const Message& message) { return message.peer_ == peer; });
  if (const auto nobody_can_send = why_nobody(); nobody_can_send.kind != Failure::Kind::kNone) {
    fail(receives_, nobody_can_send,
         [](const Message& message) { return message.peer_ == kAnySource; });
  }
  std::erase_if(offered_, [&](const auto& one) { return one.second->peer_ == peer; });
  arrivals_.drop_offers(peer);
  reading_.erase(peer);
  std::vector<MessagePointer> taken;
  std::erase_if(taken_, [&](const auto& one) {
    const bool is_lost = one.first.first == peer;
    if (is_lost && one.second.message) {
      taken.push_back(one.second.message);
    }
    return is_lost;
  });
  for (const auto& message : taken) {
    if (message->peer_ == kAnySource && !message->is_done() && !is_leaving_) {
      receive_again(message);  // Another rank may send it one.
    } else {
      finish_(message, failure);
    }
  }
}

void Exchange::give_up(const MessagePointer& message, const Failure& failure) {
  const auto is_it = [&](const Message& other) { return &other == message.get(); };
  if (message->is_send_ && message->peer_ != rank_) {
    take_back(*message);
  }
  fail(sends_, failure, is_it);
  fail(receives_, failure, is_it);
  std::erase_if(offered_, [&](const auto& one) { return one.second == message; });
  leave_to_next(message, failure);
}

// If its message is under way: what is here of it, and the rest when it comes.
void Exchange::leave_to_next(const MessagePointer& message, const Failure& failure) {
  const auto found = std::find_if(taken_.begin(), taken_.end(),
                                  [&](const auto& one) { return one.second.message == message; });
  if (found == taken_.end() || message->is_done()) {
    return;
  }
  auto& [number, coming] = *found;
  try {
    coming.kept.assign(message->data_.begin(), message->data_.end());
  } catch (const std::bad_alloc&) {  // It comes all the same, and is thrown away.
    Failure lost = failure;
    lost.kind = Failure::Kind::kClosed;  // Not late: a second try would get another message.
    lost.words += "; its message is lost: it was under way, and there is no memory to keep it";
    finish_(message, lost);
    return;
  }
  coming.message = nullptr;
  message->from_ = -1;
  finish_(message, failure);
  arrive({.from = number.first, .frame = coming.offer, .bytes = {}, .is_coming = true});
}

// The sender had given it up.
void Exchange::withdraw(int peer, const Frame& frame) {
  const auto node = taken_.extract({peer, frame.id});
  if (node.empty()) {
    return;
  }
  const MessagePointer& message = node.mapped().message;
  if (!message) {
    arrivals_.drop_offer(peer, frame.id);
  } else if (!message->is_done()) {
    receive_again(message);
  }
}

void Exchange::receive_again(const MessagePointer& message) {
  message->from_ = -1;
  if (const auto arrival = arrivals_.take(message->peer_, message->tag_)) {
    deliver(message, *arrival);
  } else {
    receives_.push_front(message);
    wait_for(message);  // The ranks that it could come from may be gone by now.
  }
}

void Exchange::give_up_all(const Failure& failure) {
  const auto any = [](const Message&) { return true; };
  peers_.close_all(failure);
  fail(sends_, failure, any);
  fail(receives_, failure, any);
  fail(questions_, failure, any);
  for (const auto& [number, coming] : taken_) {
    if (coming.message) {
      finish_(coming.message, failure);
    }
  }
  taken_.clear();
  offered_.clear();
  reading_.clear();
}

void Exchange::leave(const Failure& failure) {
  is_leaving_ = true;
  const auto any = [](const Message&) { return true; };
  fail(receives_, failure, any);
  fail(questions_, failure, any);
  for (const auto& [number, coming] : taken_) {
    if (coming.message) {
      finish_(coming.message, failure);  // It may come all the same, and is thrown away.
    }
  }
  peers_.leave();
}

void Exchange::give_up_sends(const Failure& failure) {
  for (int peer = 0; peer < peers_.size(); ++peer) {
    peers_.take_back(
        peer, [](const Frame& frame) { return frame.has_payload() || frame.kind == Kind::kOffer; });
  }
  fail(sends_, failure, [](const Message&) { return true; });
  offered_.clear();
}

void Exchange::say_goodbyes() {
  for (int peer = 0; peer < peers_.size(); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    const bool has_more = std::any_of(sends_.begin(), sends_.end(),
                                      [&](const auto& message) { return message->peer_ == peer; });
    if (!said_bye_[at] && !has_more) {
      said_bye_[at] = true;
      peers_.say_bye(peer);
    }
  }
}

}  // namespace lockstep::net
