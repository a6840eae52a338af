#include "lockstep/launch/network/channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

// A peer that reads nothing must not make us keep everything.
constexpr std::size_t kMostUnsent = std::size_t{1} << 20;

std::chrono::milliseconds since(Deadline::Clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - then);
}

}  // namespace

Channel::Channel(UniqueFd socket)
    : outbox_(std::make_shared<Outbox>(std::move(socket))),
      opened_(Deadline::Clock::now()),
      last_heard_(opened_) {
  const int on = 1;
  ::setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  outbox_->post(greeting());
}

std::chrono::milliseconds Channel::age() const { return since(opened_); }

void Channel::send(const Message& message) { outbox_->post(frame(encode(message))); }

void Channel::flush() { outbox_->flush(); }

std::vector<Message> Channel::receive() {
  char block[65536];
  const ssize_t got = ::recv(fd(), block, sizeof block, MSG_DONTWAIT);
  if (got == 0) {
    throw PeerError("its launcher closed the connection without a word");
  }
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) {
      return {};
    }
    throw PeerError(std::generic_category().message(errno));
  }
  last_heard_ = Deadline::Clock::now();
  reader_.feed({block, static_cast<std::size_t>(got)});
  std::vector<Message> messages;
  while (const auto payload = reader_.next()) {
    Message message = decode(*payload);
    if (!std::holds_alternative<Heartbeat>(message)) {
      messages.push_back(std::move(message));
    }
  }
  return messages;
}

bool Channel::unread() const {
  pollfd waiting{fd(), POLLIN, 0};
  return ::poll(&waiting, 1, 0) > 0;
}

void Channel::check(std::chrono::milliseconds silence_limit) const {
  // If we were busy ourselves, its heartbeats may be unread in the socket.
  if (since(last_heard_) >= silence_limit && !unread()) {
    throw PeerError("no sign of life for " + to_text(silence_limit));
  }
  if (outbox_->unsent() > kMostUnsent) {
    throw PeerError("it does not read what it is sent");
  }
}

void Channel::close(Deadline deadline) {
  // Closing with unread bytes in the socket would reset the connection and could destroy what
  // the other side has not read yet; so wait until it has closed first.
  char block[4096];
  bool open = true;
  bool said_goodbye = false;
  while (open && !deadline.passed()) {
    flush();
    if (!pending() && !said_goodbye) {
      ::shutdown(fd(), SHUT_WR);
      said_goodbye = true;
    }
    const short events = static_cast<short>(POLLIN | (pending() ? POLLOUT : 0));
    pollfd ready{fd(), events, 0};
    ::poll(&ready, 1, deadline.poll_timeout());
    ssize_t got = 0;
    do {
      got = ::recv(fd(), block, sizeof block, MSG_DONTWAIT);
    } while (got > 0);
    open = got < 0 && (errno == EAGAIN || errno == EINTR);
  }
  outbox_->close();
}

}  // namespace lockstep::launch
