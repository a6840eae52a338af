#include "lockstep/net/pending_connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::net {
namespace {

constexpr int kAcceptsATurn = 16;
// The pause before the next accept() when this process can have no more descriptors.
constexpr std::chrono::milliseconds kAcceptAgain{100};

}  // namespace

PendingConnections::PendingConnections(Listener listener)
    : listener_(std::move(listener)), accept_after_(Deadline::in(std::chrono::milliseconds(0))) {
  set_nonblocking(listener_.fd.get());
}

bool PendingConnections::accepts() const { return listener_.fd && accept_after_.passed(); }

void PendingConnections::add_to(std::vector<pollfd>& ready) const {
  ready.push_back({accepts() ? listener_.fd.get() : -1, POLLIN, 0});
  for (const auto& connection : silent_) {
    ready.push_back({connection.link->fd(), POLLIN, 0});
  }
}

int PendingConnections::patience() const {
  int patience = std::numeric_limits<int>::max();
  if (listener_.fd && !accept_after_.passed()) {
    patience = accept_after_.poll_timeout();
  }
  for (const auto& connection : silent_) {
    patience = std::min(patience, connection.greet_by.poll_timeout());
  }
  return patience;
}

std::vector<PendingConnections::Greeted> PendingConnections::look(std::span<const pollfd> ready) {
  std::vector<Greeted> greeted;
  std::size_t i = 1;
  for (auto connection = silent_.begin(); connection != silent_.end();) {
    std::optional<Frame> hello;
    // At the end of its time, too: this process may have been stopped since poll() looked.
    if (ready[i++].revents != 0 || connection->greet_by.passed()) {
      const auto only_a_hello = [](const Frame& frame) -> std::byte* {
        if (frame.kind != Frame::Kind::kHello) {
          throw PeerError("it did not say who it is");
        }
        return nullptr;
      };
      connection->link->read({.begin = only_a_hello, .end = [&](const Frame& frame) {
                                hello = frame;
                                return false;
                              }});
    }
    if (hello) {
      greeted.push_back({std::move(connection->link), *hello});
    }
    const bool stays = !hello && connection->link->is_open() && !connection->greet_by.passed();
    connection = stays ? std::next(connection) : silent_.erase(connection);
  }
  if (ready[0].revents != 0) {
    accept_some();
  }
  return greeted;
}

// If there are too many, drops the longest silent: a rank greets at once, and would otherwise wait
// behind strangers who never do. A connection that cannot be accepted keeps the socket ready:
// without a pause we would do nothing else.
void PendingConnections::accept_some() {
  for (int i = 0; i < kAcceptsATurn; ++i) {
    auto accepted = accept_on(listener_);
    if (!accepted.fd) {
      if (errno != EAGAIN && errno != ECONNABORTED) {
        accept_after_ = Deadline::in(kAcceptAgain);
      }
      return;
    }
    if (silent_.size() == kMostPending) {
      silent_.pop_front();
    }
    silent_.push_back({std::make_unique<Link>(std::move(accepted.fd)), Deadline::in(kGreetWithin)});
  }
}

void PendingConnections::close() {
  if (listener_.fd) {
    ::shutdown(listener_.fd.get(), SHUT_RDWR);  // A fork may have it, too.
  }
  listener_.fd.reset();
  silent_.clear();
}

}  // namespace lockstep::net
