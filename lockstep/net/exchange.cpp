#include "lockstep/net/exchange.h"

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep::net {
namespace {

using Kind = Frame::Kind;

// A larger one waits at the sender until it is wanted: here it would take memory meanwhile.
constexpr std::size_t kSmall = std::size_t{16} << 10;
// Of one rank. What else it sends waits in the kernels and then at the sender.
constexpr std::size_t kUnwanted = std::size_t{64} << 20;

}  // namespace

std::exception_ptr Failure::as_exception() const {
  switch (kind) {
    case Kind::kNone:
      return nullptr;
    case Kind::kGone:
      return std::make_exception_ptr(RankGone(rank, words));
    case Kind::kClosed:
      return std::make_exception_ptr(PeerError(words));
    case Kind::kSize:
      return std::make_exception_ptr(UsageError(words));
  }
  return nullptr;
}

std::string Card::to_text() const {
  return lockstep::to_text(endpoint) + " " + std::to_string(token);
}

Card Card::from_text(const std::string& text) {
  const auto words = split(text, ' ');
  const auto token = words.size() == 2 ? parse_int(words[1]) : std::nullopt;
  if (!token) {
    throw PeerError("a rank says that messages reach it at '" + text +
                    "', expected ADDRESS:PORT TOKEN; do all ranks run the same version?");
  }
  return {parse_endpoint(words[0], "the address of a rank"), static_cast<std::uint64_t>(*token)};
}

Exchange::Exchange(int rank, std::vector<Card> cards, Finish finish)
    : rank_(rank),
      cards_(std::move(cards)),
      finish_(std::move(finish)),
      receiver_{.begin = [this](Link& link, const Frame& frame) { return begin(link, frame); },
                .end = [this](Link& link, const Frame& frame) { end(link, frame); }},
      peers_(cards_.size()) {}

Link* Exchange::link_to(int peer) {
  const auto at = static_cast<std::size_t>(peer);
  if (peers_[at].link == nullptr && peers_[at].gone.empty()) {
    Link& link = links_.emplace_back(cards_[at].endpoint);
    link.peer = peer;
    peers_[at].link = &link;
    link.push(
        {.kind = Kind::kHello, .tag = cards_[at].token, .id = static_cast<std::uint64_t>(rank_)});
  }
  return peers_[at].link;
}

bool Exchange::is_linked(int peer) const {
  return std::any_of(links_.begin(), links_.end(),
                     [&](const Link& link) { return link.is_open() && link.peer == peer; });
}

bool Exchange::wants_to_read(const Link& link) const {
  if (is_leaving_ || link.peer < 0 || arrivals_.bytes_from(link.peer) < kUnwanted) {
    return true;
  }
  const auto is_awaited = [&](const MessagePointer& message) {
    return message->peer_ == link.peer || message->peer_ == kAnySource;
  };
  return std::any_of(receives_.begin(), receives_.end(), is_awaited) ||
         std::any_of(offered_.begin(), offered_.end(),
                     [&](const auto& one) { return is_awaited(one.second); }) ||
         std::any_of(taken_.begin(), taken_.end(),
                     [&](const auto& one) { return one.first.first == link.peer; });
}

Failure Exchange::why_gone(int peer) const {
  return {.kind = Failure::Kind::kGone,
          .words = peers_[static_cast<std::size_t>(peer)].gone,
          .rank = peer};
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
  Link* link = link_to(peer);
  if (link == nullptr) {
    finish_(message, why_gone(peer));
    return;
  }
  sends_.push_back(message);
  if (data.size() > kSmall) {
    offered_[next_offer_] = message;
    link->push(
        {.kind = Kind::kOffer, .tag = message->tag_, .bytes = data.size(), .id = next_offer_++});
    return;
  }
  link->push({.kind = Kind::kMessage, .tag = message->tag_, .bytes = data.size()}, data,
             [this, message] { was_sent(message); });
}

// What a rank sent before it ended or left is there for who asks.
void Exchange::receive(const MessagePointer& message) {
  if (const auto arrival = arrivals_.take(message->peer_, message->tag_)) {
    deliver(message, *arrival);
    return;
  }
  receives_.push_back(message);
  // Connected with whom it waits for, so that an end of that is noticed.
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    const bool is_source = message->peer_ == peer || message->peer_ == kAnySource;
    if (is_source && peer != rank_ && link_to(peer) == nullptr && !is_linked(peer)) {
      lose(peer);
    }
  }
}

bool Exchange::fits(const Message& message, const Arrival& arrival) {
  return (message.peer_ == kAnySource || message.peer_ == arrival.from) &&
         message.tag_ == arrival.frame.tag;
}

void Exchange::arrive(Arrival arrival) {
  const auto found =
      std::find_if(receives_.begin(), receives_.end(),
                   [&](const MessagePointer& message) { return fits(*message, arrival); });
  if (found == receives_.end()) {
    if (!is_leaving_) {
      arrivals_.add(std::move(arrival));
    }
    return;
  }
  const MessagePointer message = *found;
  receives_.erase(found);
  deliver(message, arrival);
}

// A receive and a message have met.
void Exchange::deliver(const MessagePointer& message, const Arrival& arrival) {
  message->from_ = arrival.from;
  const Frame& frame = arrival.frame;
  const bool is_right = message->data_.size() == frame.bytes;
  if (frame.kind == Kind::kOffer) {
    if (is_right) {
      taken_[{arrival.from, frame.id}] = message;
    }
    if (Link* link = peers_[static_cast<std::size_t>(arrival.from)].link) {
      link->push({.kind = is_right ? Kind::kTake : Kind::kRefuse, .id = frame.id});
    }
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

std::byte* Exchange::begin(Link& link, const Frame& frame) {
  if ((link.peer < 0) != (frame.kind == Kind::kHello)) {
    throw PeerError("it did not say once who it is");
  }
  if (frame.kind == Kind::kMessage) {
    if (frame.bytes > kSmall) {
      throw PeerError("it sent a small message of " + std::to_string(frame.bytes) + " bytes");
    }
    auto& bytes = reading_[&link];
    bytes.resize(frame.bytes);
    return bytes.data();
  }
  if (frame.kind == Kind::kPayload) {
    const auto found = taken_.find({link.peer, frame.id});
    if (found == taken_.end() || found->second->data_.size() != frame.bytes) {
      throw PeerError("it sent " + std::to_string(frame.bytes) + " bytes that nobody took");
    }
    return found->second->data_.data();
  }
  return nullptr;
}

void Exchange::end(Link& link, const Frame& frame) {
  switch (frame.kind) {
    case Kind::kHello:
      greet(link, frame);
      break;
    case Kind::kMessage:
      arrive({link.peer, frame, std::exchange(reading_[&link], {})});
      break;
    case Kind::kOffer:
      arrive({link.peer, frame, {}});
      break;
    case Kind::kTake:
    case Kind::kRefuse:
      answer(link, frame);
      break;
    case Kind::kPayload: {
      const auto node = taken_.extract({link.peer, frame.id});
      finish_(node.mapped(), {});
      break;
    }
    case Kind::kLeft:  // Comes through the link that carried its messages, after all of them.
      peers_[static_cast<std::size_t>(link.peer)].has_left = true;
      for (auto& other : links_) {
        if (other.peer == link.peer) {
          other.close("it has left");
        }
      }
      break;
  }
}

void Exchange::greet(Link& link, const Frame& frame) {
  if (frame.tag != cards_[static_cast<std::size_t>(rank_)].token || frame.id >= peers_.size() ||
      static_cast<int>(frame.id) == rank_) {
    link.close("it is no rank of this group");
    return;
  }
  link.peer = static_cast<int>(frame.id);
  if (peers_[frame.id].link == nullptr) {
    peers_[frame.id].link = &link;
    if (is_leaving_) {
      link.push({.kind = Kind::kLeft});
    }
  }
}

// To an offer.
void Exchange::answer(Link& link, const Frame& frame) {
  const auto offer = offered_.find(frame.id);
  if (offer == offered_.end() || offer->second->peer_ != link.peer) {
    return;  // It was given up.
  }
  const MessagePointer message = offer->second;
  offered_.erase(offer);
  if (frame.kind == Kind::kRefuse) {
    was_sent(message);  // The error is the receiver's.
    return;
  }
  link.push({.kind = Kind::kPayload, .bytes = message->data_.size(), .id = frame.id},
            message->data_, [this, message] { was_sent(message); });
}

void Exchange::was_sent(const MessagePointer& message) {
  const auto found = std::find(sends_.begin(), sends_.end(), message);
  if (found != sends_.end()) {
    sends_.erase(found);
    finish_(message, {});
  }
}

template <class Condition>
void Exchange::fail(std::list<MessagePointer>& list, const Failure& failure, Condition condition) {
  for (auto one = list.begin(); one != list.end();) {
    const MessagePointer message = *one;
    const bool fails = condition(*message);
    one = fails ? list.erase(one) : std::next(one);
    if (fails) {
      finish_(message, failure);
    }
  }
}

// Why a message of anyone cannot come: a rank ended, or all others have left. kNone if it can.
Failure Exchange::why_nobody() const {
  Failure why;
  bool is_anybody_there = false;
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    const Peer& other = peers_[static_cast<std::size_t>(peer)];
    if (peer == rank_ || other.gone.empty()) {
      is_anybody_there = is_anybody_there || peer != rank_;
    } else if (!other.has_left) {
      return why_gone(peer);
    } else {
      why = why_gone(peer);
    }
  }
  return is_anybody_there ? Failure() : why;
}

// Nothing comes from it any more, nor does anything reach it. Whoever waits for anyone goes on
// waiting if it has left in order.
void Exchange::lose(int peer) {
  const auto failure = why_gone(peer);
  fail(sends_, failure, [&](const Message& message) { return message.peer_ == peer; });
  fail(receives_, failure, [&](const Message& message) { return message.peer_ == peer; });
  if (const auto nobody_can_send = why_nobody(); nobody_can_send.kind != Failure::Kind::kNone) {
    fail(receives_, nobody_can_send,
         [](const Message& message) { return message.peer_ == kAnySource; });
  }
  std::erase_if(offered_, [&](const auto& one) { return one.second->peer_ == peer; });
  std::erase_if(taken_, [&](const auto& one) {
    if (one.first.first == peer) {
      finish_(one.second, failure);
    }
    return one.first.first == peer;
  });
  arrivals_.drop_offers(peer);
}

// Two ranks that connect at the same moment have two links: what is left of the other is read.
void Exchange::drop_closed() {
  for (auto link = links_.begin(); link != links_.end();) {
    if (link->is_open()) {
      ++link;
      continue;
    }
    const int peer = link->peer;
    const std::string why = link->why();
    const bool was_refused = link->was_refused();
    reading_.erase(&*link);
    if (peer >= 0 && peers_[static_cast<std::size_t>(peer)].link == &*link) {
      peers_[static_cast<std::size_t>(peer)].link = nullptr;
    }
    link = links_.erase(link);
    if (peer < 0) {
      continue;
    }
    auto& lost = peers_[static_cast<std::size_t>(peer)];
    const std::string who = "rank " + std::to_string(peer);
    lost.gone = who + (lost.has_left ? " has left the group" : " is gone: " + why);
    lost.has_left = lost.has_left || was_refused;  // It ended or left: who waits for anyone waits.
    if (!is_linked(peer)) {
      lose(peer);
    }
  }
}

void Exchange::give_up(const MessagePointer& message, const Failure& failure) {
  const auto is_it = [&](const Message& other) { return &other == message.get(); };
  fail(sends_, failure, is_it);
  fail(receives_, failure, is_it);
  std::erase_if(offered_, [&](const auto& one) { return one.second == message; });
  const bool is_coming = std::any_of(taken_.begin(), taken_.end(),
                                     [&](const auto& one) { return one.second == message; });
  if (is_coming) {
    finish_(message, failure);  // It comes all the same, into memory that is kept for it.
  }
}

void Exchange::give_up_all(const Failure& failure) {
  const auto any = [](const Message&) { return true; };
  for (auto& link : links_) {
    link.close("closed by this rank");
  }
  links_.clear();
  reading_.clear();
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    peers_[peer].link = nullptr;
    peers_[peer].gone = "this rank has closed its connections";
  }
  fail(sends_, failure, any);
  fail(receives_, failure, any);
  for (const auto& [key, message] : taken_) {
    finish_(message, failure);
  }
  taken_.clear();
  offered_.clear();
}

void Exchange::leave(const Failure& failure) {
  fail(receives_, failure, [](const Message&) { return true; });
  for (const auto& [key, message] : taken_) {
    finish_(message, failure);  // It may come all the same, into memory that is kept for it.
  }
  for (const auto& [id, message] : std::exchange(offered_, {})) {
    give_up(message, failure);
  }
  is_leaving_ = true;
  for (const auto& peer : peers_) {
    if (peer.link != nullptr) {
      peer.link->push({.kind = Kind::kLeft});
    }
  }
}

// The other end closes what else there is between the two: what it reads there may be the last.
void Exchange::end_sending() {
  for (const auto& peer : peers_) {
    if (peer.link != nullptr && !peer.link->has_unsent()) {
      peer.link->end_sending();
    }
  }
}

}  // namespace lockstep::net
