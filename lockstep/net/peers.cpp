#include "lockstep/net/peers.h"

#include <algorithm>
#include <cerrno>

#include "lockstep/base/error.h"

namespace lockstep::net {
namespace {

using Kind = Frame::Kind;

// The kernel of a host that is there answers, whatever its ranks do. A lost packet is sent again
// after 1 s and after 3 s.
constexpr std::chrono::seconds kOpenWithin{5};
// A rank listens before the others know where, and until it ends or leaves.
constexpr std::chrono::milliseconds kRefusedFor{300};
constexpr std::chrono::milliseconds kTryAgain{50};
constexpr std::chrono::seconds kLookForSilence{1};

}  // namespace

Peers::Peers(int rank, std::vector<RankAddress> addresses, Listener listener, Events events)
    : rank_(rank),
      addresses_(std::move(addresses)),
      pending_(std::move(listener)),
      events_(std::move(events)),
      peers_(addresses_.size()),
      look_for_silence_(Deadline::in(kLookForSilence)) {}

bool Peers::connect(int peer) {
  Peer& other = at(peer);
  if (other.state == State::kIdle) {
    other.state = State::kOpening;
    other.opened_by = Deadline::in(kOpenWithin);
    other.refused_by = Deadline::in(kRefusedFor);
    other.next_try = Deadline::in({});  // In the next turn.
  }
  return other.state != State::kGone;
}

void Peers::post(int peer, const Frame& frame, std::span<const std::byte> payload,
                 std::function<void()> sent) {
  Peer& other = at(peer);
  Posted posted{frame, payload, std::move(sent)};
  if (other.state == State::kOpen) {
    push(other, std::move(posted));
  } else if (connect(peer)) {
    other.waiting.push_back(std::move(posted));
  }
}

void Peers::push(Peer& peer, Posted posted) {
  peer.link->push(posted.frame, posted.payload, std::move(posted.sent));
  if (posted.frame.kind == Kind::kBye) {
    peer.link->end_sending();
  }
}

std::vector<Frame> Peers::take_back(int peer, const std::function<bool(const Frame&)>& which) {
  Peer& other = at(peer);
  std::erase_if(other.waiting, [&](const Posted& posted) { return which(posted.frame); });
  return other.link ? other.link->take_back(which) : std::vector<Frame>();
}

const Failure& Peers::why_gone(int peer) const { return at(peer).gone; }

void Peers::turn(int wake, Deadline limit) {
  look_at_times();
  std::vector<pollfd> ready{{wake, POLLIN, 0}};
  std::vector<int> ranks;
  for (int peer = 0; peer < size(); ++peer) {
    if (const auto& link = at(peer).link) {
      ranks.push_back(peer);
      const bool reads = is_leaving_ || events_.wants_to_read(peer);
      ready.push_back({link->fd(), link->events(reads), 0});
    }
  }
  const std::size_t first_pending = ready.size();
  pending_.add_to(ready);
  if (::poll(ready.data(), ready.size(), patience(limit)) < 0) {
    return;  // Interrupted.
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    handle(ranks[i], ready[i + 1].revents);
  }
  for (auto& greeted : pending_.look(std::span(ready).subspan(first_pending))) {
    greet(std::move(greeted));
  }
}

void Peers::look_at_times() {
  const bool looks_for_silence = look_for_silence_.passed();
  for (int peer = 0; peer < size(); ++peer) {
    Peer& other = at(peer);
    if (other.state == State::kOpening && !other.link && other.next_try.passed()) {
      other.link = std::make_unique<Link>(addresses_[static_cast<std::size_t>(peer)].endpoint);
      other.link->push({.kind = Kind::kHello,
                        .tag = addresses_[static_cast<std::size_t>(peer)].token,
                        .id = static_cast<std::uint64_t>(rank_)});
    } else if (other.link && other.link->is_connecting() && other.opened_by.passed()) {
      other.link->close("it does not answer: timed out after " + to_text(other.opened_by.total()));
    } else if (other.link && looks_for_silence) {
      other.link->close_if_silent();
    }
    if (other.link && !other.link->is_open()) {
      link_closed(peer);
    }
  }
  if (looks_for_silence) {
    look_for_silence_ = Deadline::in(kLookForSilence);
  }
}

int Peers::patience(Deadline limit) const {
  int patience = std::min(limit.poll_timeout(), pending_.patience());
  for (const auto& peer : peers_) {
    if (peer.state == State::kOpening && !peer.link) {
      patience = std::min(patience, peer.next_try.poll_timeout());
    } else if (peer.link && peer.link->is_connecting()) {
      patience = std::min(patience, peer.opened_by.poll_timeout());
    } else if (peer.link) {
      patience = std::min(patience, look_for_silence_.poll_timeout());
    }
  }
  return patience;
}

void Peers::handle(int peer, short events) {
  Link* link = at(peer).link.get();
  if (events == 0 || link == nullptr) {
    return;
  }
  if (link->is_connecting()) {
    link->finish_connecting();
  }
  link->write();
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
    link->read({.begin = [this, peer](const Frame& frame) -> std::byte* {
                  check(peer, frame);
                  return at(peer).state == State::kOpen ? events_.begin(peer, frame) : nullptr;
                },
                .end =
                    [this, peer](const Frame& frame) {
                      answer(peer, frame);
                      return true;
                    }});
  }
  if (!link->is_open()) {
    link_closed(peer);
  }
}

// Throws PeerError for a frame that the protocol does not allow in this state.
void Peers::check(int peer, const Frame& frame) const {
  const bool is_answer = frame.kind == Kind::kWelcome || frame.kind == Kind::kYield;
  if (frame.kind == Kind::kHello || is_answer != (at(peer).state == State::kOpening)) {
    throw PeerError("it did not keep to the order of greetings");
  }
  if (frame.kind == Kind::kYield && peer > rank_) {
    throw PeerError("it wants a lower rank to yield");
  }
  if (frame.kind == Kind::kWelcome &&
      frame.tag != addresses_[static_cast<std::size_t>(rank_)].token) {
    throw PeerError("it is no rank of this group");
  }
}

void Peers::answer(int peer, const Frame& frame) {
  Peer& other = at(peer);
  switch (frame.kind) {
    case Kind::kWelcome:
      become_open(peer);
      break;
    case Kind::kYield:  // Its own greeting is on its way. Should it not come, we try again.
      other.link->close("it connects itself, and does not greet");
      if (!std::exchange(other.has_yielded, true)) {  // Once: else we might try for ever.
        other.opened_by = Deadline::in(kOpenWithin);
      }
      break;
    case Kind::kBye:
      other.said_bye = true;
      other.link->close("it has left");
      break;
    default:
      events_.end(peer, frame);
  }
}

// One that is being opened and is not there yet gives way to one that is.
void Peers::greet(PendingConnections::Greeted greeted) {
  const Frame& hello = greeted.hello;
  if (hello.tag != addresses_[static_cast<std::size_t>(rank_)].token || hello.id >= peers_.size() ||
      hello.id == static_cast<std::uint64_t>(rank_)) {
    return;
  }
  const int peer = static_cast<int>(hello.id);
  Peer& other = at(peer);
  if (other.state == State::kOpen || other.state == State::kGone) {
    return;
  }
  if (other.link && !other.link->is_connecting() && rank_ < peer) {
    greeted.link->push({.kind = Kind::kYield});
    greeted.link->write();
    return;
  }
  const bool is_news = other.state == State::kIdle;
  other.link = std::move(greeted.link);
  other.link->push({.kind = Kind::kWelcome, .tag = addresses_[hello.id].token});
  become_open(peer);
  if (is_news && is_leaving_) {
    say_bye(peer);
  }
}

void Peers::become_open(int peer) {
  Peer& other = at(peer);
  other.state = State::kOpen;
  for (auto& posted : std::exchange(other.waiting, {})) {
    push(other, std::move(posted));
  }
}

void Peers::link_closed(int peer) {
  Peer& other = at(peer);
  const auto link = std::exchange(other.link, nullptr);
  other.sent_before += link->bytes_sent();
  const std::string who = "rank " + std::to_string(peer);
  if (other.state == State::kOpening) {
    const bool refused = link->was_refused();
    if (link->had_no_socket()) {  // It is this process that lacks something, and may soon not.
      other.opened_by = Deadline::in(kOpenWithin);
    }
    if (!(refused ? other.refused_by : other.opened_by).passed()) {
      other.next_try = Deadline::in(kTryAgain);
      return;
    }
    const std::string place = to_text(addresses_[static_cast<std::size_t>(peer)].endpoint);
    lose(peer, {.kind = refused ? Failure::Kind::kRefused : Failure::Kind::kDied,
                .words = who + " is gone: " +
                         (refused ? "nobody listens at " + place +
                                        " any more; it has ended or left the group"
                                  : "connecting to " + place + ": " + link->why()),
                .rank = peer});
  } else if (other.said_bye) {
    lose(peer, {.kind = Failure::Kind::kLeft, .words = who + " has left the group", .rank = peer});
  } else {
    lose(peer,
         {.kind = Failure::Kind::kDied, .words = who + " is gone: " + link->why(), .rank = peer});
  }
}

void Peers::lose(int peer, Failure failure) {
  Peer& other = at(peer);
  other.state = State::kGone;
  other.gone = std::move(failure);
  other.waiting.clear();
  events_.lost(peer);
}

void Peers::say_bye(int peer) {
  if (at(peer).state == State::kOpening || at(peer).state == State::kOpen) {
    post(peer, {.kind = Kind::kBye});
  }
}

bool Peers::is_alone() const {
  return std::none_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.state == State::kOpening || peer.state == State::kOpen;
  });
}

void Peers::close_all(const Failure& failure) {
  pending_.close();
  for (auto& peer : peers_) {
    if (peer.link) {
      peer.link->close("closed by this rank");
    }
    peer.link.reset();
    peer.waiting.clear();
    peer.state = State::kGone;
    peer.gone = failure;
  }
}

std::size_t Peers::connected() const {
  return static_cast<std::size_t>(std::count_if(
      peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.state == State::kOpen; }));
}

std::size_t Peers::bytes_sent() const {
  std::size_t bytes = 0;
  for (const auto& peer : peers_) {
    bytes += peer.sent_before + (peer.link ? peer.link->bytes_sent() : 0);
  }
  return bytes;
}

}  // namespace lockstep::net
