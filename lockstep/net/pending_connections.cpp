#include "lockstep/net/door.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::net {
namespace {

constexpr int kAcceptsATurn = 16;
// How long whoever connects waits at least where this process can have no more descriptors.
constexpr std::chrono::milliseconds kAcceptAgain{100};

}  // namespace

Door::Door(Listener listener)
    : listener_(std::move(listener)), accept_after_(Deadline::in(std::chrono::milliseconds(0))) {
  set_nonblocking(listener_.fd.get());
}

bool Door::accepts() const { return listener_.fd && accept_after_.passed(); }

void Door::add_to(std::vector<pollfd>& ready) const {
  ready.push_back({accepts() ? listener_.fd.get() : -1, POLLIN, 0});
  for (const auto& guest : silent_) {
    ready.push_back({guest.link->fd(), POLLIN, 0});
  }
}

int Door::patience() const {
  int patience = std::numeric_limits<int>::max();
  if (listener_.fd && !accept_after_.passed()) {
    patience = accept_after_.poll_timeout();
  }
  for (const auto& guest : silent_) {
    patience = std::min(patience, guest.greet_by.poll_timeout());
  }
  return patience;
}

std::vector<Door::Guest> Door::look(std::span<const pollfd> ready) {
  std::vector<Guest> greeted;
  std::size_t i = 1;
  for (auto guest = silent_.begin(); guest != silent_.end();) {
    std::optional<Frame> hello;
    // At the end of its time, too: this process may have been stopped since poll() looked.
    if (ready[i++].revents != 0 || guest->greet_by.passed()) {
      const auto only_a_hello = [](const Frame& frame) -> std::byte* {
        if (frame.kind != Frame::Kind::kHello) {
          throw PeerError("it did not say who it is");
        }
        return nullptr;
      };
      guest->link->read({.begin = only_a_hello, .end = [&](const Frame& frame) {
                           hello = frame;
                           return false;
                         }});
    }
    if (hello) {
      greeted.push_back({std::move(guest->link), *hello});
    }
    const bool stays = !hello && guest->link->is_open() && !guest->greet_by.passed();
    guest = stays ? std::next(guest) : silent_.erase(guest);
  }
  if (ready[0].revents != 0) {
    accept_some();
  }
  return greeted;
}

// Of too many the one goes that has been silent for longest: a rank greets at once, and would
// otherwise wait behind strangers who never do. Whoever cannot be accepted stays there, and the
// socket ready: without a pause we would do nothing else.
void Door::accept_some() {
  for (int i = 0; i < kAcceptsATurn; ++i) {
    auto accepted = accept_on(listener_);
    if (!accepted.fd) {
      if (errno != EAGAIN && errno != ECONNABORTED) {
        accept_after_ = Deadline::in(kAcceptAgain);
      }
      return;
    }
    if (silent_.size() == kGuests) {
      silent_.pop_front();
    }
    silent_.push_back({std::make_unique<Link>(std::move(accepted.fd)), Deadline::in(kGreetWithin)});
  }
}

void Door::close() {
  if (listener_.fd) {
    ::shutdown(listener_.fd.get(), SHUT_RDWR);  // A fork may have it, too.
  }
  listener_.fd.reset();
  silent_.clear();
}

}  // namespace lockstep::net
