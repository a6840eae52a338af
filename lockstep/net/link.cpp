#include "lockstep/net/link.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "lockstep/base/error.h"

namespace lockstep::net {
namespace {

// The kernel of a host that is there answers, whatever its ranks do. A lost packet is sent again
// after 1 s and after 3 s.
constexpr std::chrono::seconds kConnect{5};

std::string reason(int error) { return std::generic_category().message(error); }

void send_at_once(int fd) {
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Link::Link(UniqueFd socket)
    : socket_(std::move(socket)), connected_by_(Deadline::in(std::chrono::seconds(0))) {
  send_at_once(socket_.get());
}

Link::Link(const Endpoint& endpoint) : connecting_(true), connected_by_(Deadline::in(kConnect)) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (error != 0) {
    close(to_text(endpoint) + ": " + ::gai_strerror(error));
    return;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  socket_ = UniqueFd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) {
    close("no socket: " + reason(errno));
    return;
  }
  send_at_once(socket_.get());
  if (::connect(socket_.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    close("connecting to " + to_text(endpoint) + ": " + reason(errno));
  }
}

bool Link::finish_connecting() {
  pollfd ready{socket_.get(), POLLOUT, 0};
  if (::poll(&ready, 1, 0) <= 0) {
    if (connected_by_.passed()) {
      close("it does not answer: timed out after " + to_text(connected_by_.total()));
    }
    return false;
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    was_refused_ = error == ECONNREFUSED;
    close("connecting: " + reason(error));
    return false;
  }
  connecting_ = false;
  return true;
}

void Link::close(const std::string& why) {
  if (why_.empty()) {
    why_ = why;
  }
  connecting_ = false;
  if (socket_) {
    ::shutdown(socket_.get(), SHUT_RDWR);  // A fork may have it, too.
  }
  socket_.reset();
  unsent_.clear();
}

void Link::push(const Frame& frame, std::span<const std::byte> payload,
                std::function<void()> sent) {
  unsent_.push_back({frame, payload, std::move(sent)});
}

void Link::write() {
  if (!is_open() || (connecting_ && !finish_connecting())) {
    return;
  }
  while (!unsent_.empty()) {
    const Unsent& first = unsent_.front();
    iovec parts[2];
    std::size_t count = 0;
    if (sent_ < sizeof(Frame)) {
      auto* frame = reinterpret_cast<std::byte*>(const_cast<Frame*>(&first.frame));
      parts[count++] = {frame + sent_, sizeof(Frame) - sent_};
    }
    const std::size_t of_payload = sent_ < sizeof(Frame) ? 0 : sent_ - sizeof(Frame);
    if (of_payload < first.payload.size()) {
      const auto rest = first.payload.subspan(of_payload);
      parts[count++] = {const_cast<std::byte*>(rest.data()), rest.size()};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const auto written = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno != EAGAIN) {
        close("sending: " + reason(errno));
      }
      return;
    }
    sent_ += static_cast<std::size_t>(written);
    if (sent_ == sizeof(Frame) + first.payload.size()) {
      const auto sent = std::move(unsent_.front().sent);
      unsent_.pop_front();
      sent_ = 0;
      if (sent) {
        sent();
      }
    }
  }
}

bool Link::fill(std::byte* data, std::size_t bytes, std::size_t& got) {
  while (got < bytes) {
    const auto count = ::recv(socket_.get(), data + got, bytes - got, 0);
    if (count > 0) {
      got += static_cast<std::size_t>(count);
    } else if (count == 0) {
      close("it ended the connection");
      return false;
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      close("receiving: " + reason(errno));
      return false;
    }
  }
  return true;
}

void Link::read(const Receiver& receiver) {
  // So many at once, so that one link does not keep the others waiting.
  constexpr int kFrames = 64;
  for (int i = 0; i < kFrames && is_open() && !connecting_; ++i) {
    if (frame_got_ < sizeof(Frame)) {
      if (!fill(reinterpret_cast<std::byte*>(&frame_), sizeof(Frame), frame_got_)) {
        return;
      }
      payload_got_ = 0;
      try {
        if (frame_.magic != Frame::kMagic) {
          throw PeerError("it sent bytes that are none of ours");
        }
        payload_ = receiver.begin(*this, frame_);
      } catch (const Error& error) {
        close(error.what());
        return;
      }
    }
    if (frame_.has_payload() && !fill(payload_, frame_.bytes, payload_got_)) {
      return;
    }
    frame_got_ = 0;
    receiver.end(*this, frame_);
  }
}

void Link::end_sending() {
  if (is_open() && !connecting_) {
    ::shutdown(socket_.get(), SHUT_WR);
  }
}

}  // namespace lockstep::net
