#include "lockstep/net/exchange.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::net {
namespace {

using Kind = Frame::Kind;

// A larger one waits at the sender until it is wanted: here it would take memory meanwhile.
constexpr std::size_t kSmall = std::size_t{16} << 10;
// Bytes of unrequested messages that are kept from one rank. What else it sends waits in the
// kernels and then at the sender.
constexpr std::size_t kUnwanted = std::size_t{64} << 20;

}  // namespace

Exchange::Exchange(int rank, std::vector<RankAddress> addresses, Listener listener, Finish finish)
    : rank_(rank),
      finish_(std::move(finish)),
      said_bye_(addresses.size(), false),
      last_offer_(addresses.size(), 0),
      peers_(rank, std::move(addresses), std::move(listener),
             {.begin = [this](int peer, const Frame& frame) { return begin(peer, frame); },
              .end = [this](int peer, const Frame& frame) { end(peer, frame); },
              .lost = [this](int peer) { lose(peer); },
              .wants_to_read = [this](int peer) { return wants_to_read(peer); }}) {}

// Whether to read on from a rank. Reading stops once 64 MiB of its messages lie here that nobody
// has asked for. It goes on all the same while this rank waits for something from that rank, which
// may come behind them, and while this rank sends to it, because it may read nothing before its own
// sends are out. So no wait depends on the limit.
bool Exchange::wants_to_read(int peer) const {
  if (arrivals_.bytes_from(peer) < kUnwanted) {
    return true;
  }
  const auto is_awaited = [&](const MessagePointer& message) {
    return message->peer_ == peer || message->peer_ == kAnySource;
  };
  return std::any_of(receives_.begin(), receives_.end(), is_awaited) ||
         std::any_of(sends_.begin(), sends_.end(), is_awaited) ||
         std::any_of(questions_.begin(), questions_.end(), is_awaited) ||
         std::any_of(taken_.begin(), taken_.end(),
                     [&](const auto& one) { return one.first.first == peer; });
}

void Exchange::send(const MessagePointer& message) {
  const int peer = message->peer_;
  const auto& data = message->data_;
  if (peer == rank_) {
    arrive({peer,
            {.kind = Kind::kMessage, .tag = message->tag_, .bytes = data.size()},
            {data.begin(), data.end()}});
    finish_(message, {});
    return;
  }
  if (!peers_.connect(peer)) {
    finish_(message, peers_.why_gone(peer));
    return;
  }
  sends_.push_back(message);
  message->id_ = next_id_++;
  Frame frame{.kind = data.size() > kSmall ? Kind::kOffer : Kind::kMessage,
              .tag = message->tag_,
              .bytes = data.size(),
              .id = message->id_};
  if (frame.kind == Kind::kOffer) {
    offered_[frame.id] = message;
    peers_.post(peer, frame);
  } else {
    peers_.post(peer, frame, data, [this, message] { was_sent(message); });
  }
}

// For a send that fails. If the receiver has taken the offer, tells it that no bytes will come.
void Exchange::take_back(const Message& message) {
  const auto taken = peers_.take_back(message.peer_, [&](const Frame& frame) {
    return frame.has_payload() && frame.id == message.id_;
  });
  if (!taken.empty() && taken.front().kind == Kind::kPayload) {
    peers_.post(message.peer_, {.kind = Kind::kWithdrawn, .id = message.id_});
  }
}

void Exchange::ask(const MessagePointer& message) {
  if (!peers_.connect(message->peer_)) {
    finish_(message, peers_.why_gone(message->peer_));
    return;
  }
  message->id_ = next_id_++;
  questions_.push_back(message);
  peers_.post(message->peer_, {.kind = Kind::kAsk, .id = message->id_});
}

// What a rank sent before it ended or left can still be received.
void Exchange::receive(const MessagePointer& message) {
  if (const auto arrival = arrivals_.take(message->peer_, message->tag_)) {
    deliver(message, *arrival);
    return;
  }
  receives_.push_back(message);
  wait_for(message);
}

// Connected with whom it waits for, so that an end of that is noticed.
void Exchange::wait_for(const MessagePointer& message) {
  const auto is_it = [&](const Message& other) { return &other == message.get(); };
  if (message->peer_ != kAnySource) {
    if (message->peer_ != rank_ && !peers_.connect(message->peer_)) {
      fail(receives_, peers_.why_gone(message->peer_), is_it);
    }
    return;
  }
  for (int peer = 0; peer < peers_.size(); ++peer) {
    if (peer != rank_) {
      peers_.connect(peer);
    }
  }
  if (const auto why = why_nobody(); why.kind != Failure::Kind::kNone) {
    fail(receives_, why, is_it);
  }
}

void Exchange::arrive(Arrival arrival) {
  const auto found =
      std::find_if(receives_.begin(), receives_.end(), [&](const MessagePointer& message) {
        return (message->peer_ == kAnySource || message->peer_ == arrival.from) &&
               message->tag_ == arrival.frame.tag;
      });
  if (found == receives_.end()) {
    if (!is_leaving_) {
      arrivals_.add(std::move(arrival));
    }
    return;
  }
  const MessagePointer message = std::move(*found);
  receives_.erase(found);
  deliver(message, arrival);
}

// A receive and a message have met.
void Exchange::deliver(const MessagePointer& message, const Arrival& arrival) {
  message->from_ = arrival.from;
  const Frame& frame = arrival.frame;
  const bool is_right = message->data_.size() == frame.bytes;
  if (frame.kind == Kind::kOffer) {
    take(message, arrival);
  }
  if (!is_right) {
    finish_(message, {.kind = Failure::Kind::kSize,
                      .words = "rank " + std::to_string(arrival.from) + " sent " +
                               std::to_string(frame.bytes) + " bytes, this rank expected " +
                               std::to_string(message->data_.size())});
  } else if (frame.kind == Kind::kMessage) {
    std::copy(arrival.bytes.begin(), arrival.bytes.end(), message->data_.begin());
    finish_(message, {});
  }
}

// Or refuses it, if it is of another size. One that is coming was taken before; of another size, it
// comes all the same, and is thrown away.
void Exchange::take(const MessagePointer& message, const Arrival& offer) {
  const std::pair number{offer.from, offer.frame.id};
  const bool is_right = message->data_.size() == offer.frame.bytes;
  if (offer.is_coming) {
    Coming& coming = taken_.at(number);
    if (is_right) {
      std::copy(coming.kept.begin(), coming.kept.end(), message->data_.begin());
      coming.message = message;
    }
    coming.kept = {};
    return;
  }
  if (is_right) {
    taken_[number] = {.message = message, .offer = offer.frame};
  }
  peers_.post(offer.from, {.kind = is_right ? Kind::kTake : Kind::kRefuse, .id = offer.frame.id});
}

// Null if nobody wants it.
std::byte* Exchange::Coming::address() {
  if (message) {
    return message->is_done() ? nullptr : message->data_.data();
  }
  return kept.empty() ? nullptr : kept.data();
}

std::byte* Exchange::begin(int peer, const Frame& frame) {
  if (frame.kind == Kind::kMessage) {
    if (frame.bytes > kSmall) {
      throw PeerError("it sent a small message of " + std::to_string(frame.bytes) + " bytes");
    }
    auto& bytes = reading_[peer];
    bytes.resize(frame.bytes);
    return bytes.data();
  }
  if (frame.kind == Kind::kOffer) {
    // A number that comes twice would mix up two messages of different sizes.
    auto& last = last_offer_[static_cast<std::size_t>(peer)];
    if (frame.bytes <= kSmall || frame.id <= last) {
      throw PeerError("it offered a message of " + std::to_string(frame.bytes) +
                      " bytes with the number " + std::to_string(frame.id) + " after " +
                      std::to_string(last));
    }
    last = frame.id;
  }
  if (frame.kind == Kind::kPayload) {
    const auto found = taken_.find({peer, frame.id});
    if (found == taken_.end() || found->second.offer.bytes != frame.bytes) {
      throw PeerError("it sent " + std::to_string(frame.bytes) + " bytes that nobody took");
    }
    return found->second.address();
  }
  return nullptr;
}

void Exchange::end(int peer, const Frame& frame) {
  switch (frame.kind) {
    case Kind::kMessage:
      arrive({peer, frame, std::exchange(reading_[peer], {})});
      break;
    case Kind::kOffer:
      arrive({peer, frame, {}});
      break;
    case Kind::kTake:
    case Kind::kRefuse:
      answer(peer, frame);
      break;
    case Kind::kPayload:
      if (auto node = taken_.extract({peer, frame.id}); !node.empty()) {
        Coming& came = node.mapped();
        if (came.message) {
          finish_(came.message, {});
        } else if (!came.kept.empty()) {
          arrivals_.complete(peer, frame.id, std::move(came.kept));
        }
      }
      break;
    case Kind::kWithdrawn:
      withdraw(peer, frame);
      break;
    case Kind::kAsk:
      if (!said_bye_[static_cast<std::size_t>(peer)]) {  // Else nothing follows.
        peers_.post(peer, {.kind = Kind::kTold, .tag = progress_, .id = frame.id});
      }
      break;
    case Kind::kTold:
      be_told(peer, frame);
      break;
    default:  // Peers' own.
      break;
  }
}

void Exchange::be_told(int peer, const Frame& frame) {
  const auto found = std::find_if(questions_.begin(), questions_.end(), [&](const auto& question) {
    return question->peer_ == peer && question->id_ == frame.id;
  });
  if (found != questions_.end()) {
    const MessagePointer question = std::move(*found);
    questions_.erase(found);
    question->answer_ = frame.tag;
    finish_(question, {});
  }
}

// To an offer. Each has a number of its own, so an answer to one that was given up is known.
void Exchange::answer(int peer, const Frame& frame) {
  const auto offer = offered_.find(frame.id);
  if (offer == offered_.end() || offer->second->peer_ != peer) {
    if (frame.kind == Kind::kTake) {
      peers_.post(peer, {.kind = Kind::kWithdrawn, .id = frame.id});
    }
    return;
  }
  const MessagePointer message = offer->second;
  offered_.erase(offer);
  if (frame.kind == Kind::kRefuse) {
    was_sent(message);  // The error is the receiver's.
    return;
  }
  peers_.post(peer, {.kind = Kind::kPayload, .bytes = message->data_.size(), .id = frame.id},
              message->data_, [this, message] { was_sent(message); });
}

void Exchange::was_sent(const MessagePointer& message) {
  const auto found = std::find(sends_.begin(), sends_.end(), message);
  if (found != sends_.end()) {
    sends_.erase(found);
    finish_(message, {});
  }
}

}  // namespace lockstep::net
