#include "lockstep/net/link.h"

#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/tcp_liveness.h"

namespace lockstep::net {
namespace {

// So much that cannot be sent yet waits in the kernel. It has room for more: so a rank that leaves
// can say so to one that reads nothing at the time.
constexpr int kUnsentInKernel = 256 << 10;

std::string reason(int error) { return std::generic_category().message(error); }

void set_option(int fd, int level, int name, int value) {
  (void)::setsockopt(fd, level, name, &value, sizeof value);  // Without it the deadlines remain.
}

void set_options(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  keep_alive(fd);
  set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentInKernel);
}

// The kernel may choose the very port that nobody listens at any more.
bool is_connected_to_itself(int fd) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_size = sizeof own;
  socklen_t peer_size = sizeof peer;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
         own_size == peer_size && std::memcmp(&own, &peer, own_size) == 0;
}

}  // namespace

Link::Link(UniqueFd socket) : socket_(std::move(socket)) { set_options(socket_.get()); }

Link::Link(const Endpoint& endpoint) : connecting_(true) {
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
    had_no_socket_ = true;
    close("no socket: " + reason(errno));
    return;
  }
  set_options(socket_.get());
  if (::connect(socket_.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    refuse(errno);
  }
}

void Link::refuse(int error) {
  was_refused_ = error == ECONNREFUSED;
  close("connecting: " + reason(error));
}

void Link::finish_connecting() {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0 || is_connected_to_itself(socket_.get())) {
    refuse(error != 0 ? error : ECONNREFUSED);
  }
  connecting_ = false;
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
  sent_ = 0;
}

void Link::close_if_silent() {
  if (is_open() && !connecting_ && is_silent(socket_.get())) {
    close("its host does not answer any more");
  }
}

void Link::end_sending() {
  ends_ = true;
  if (is_open()) {
    set_option(socket_.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, std::numeric_limits<int>::max());
  }
}

std::size_t Link::bytes_sent() const {
  int waiting = 0;
  if (!is_open() || connecting_ || ::ioctl(socket_.get(), SIOCOUTQ, &waiting) != 0) {
    return bytes_sent_;
  }
  return bytes_sent_ - std::min(bytes_sent_, static_cast<std::size_t>(waiting));
}

short Link::events(bool reads) const {
  if (connecting_) {
    return POLLOUT;
  }
  const bool writes = !is_deaf_ && (!unsent_.empty() || (ends_ && !has_ended_));
  return static_cast<short>((reads || is_deaf_ ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

void Link::push(const Frame& frame, std::span<const std::byte> payload,
                std::function<void()> sent) {
  if (is_open() && !is_deaf_) {
    unsent_.push_back({frame, payload, std::move(sent)});
  }
}

std::vector<Frame> Link::take_back(const std::function<bool(const Frame&)>& which) {
  std::vector<Frame> taken;
  auto first = unsent_.begin();
  if (sent_ > 0) {
    if (which(first->frame)) {
      try {
        first->copy.assign(first->payload.begin(), first->payload.end());
      } catch (const std::bad_alloc&) {
        close("this rank gave up a message that was half sent, and has no memory for the rest");
        return taken;
      }
      first->payload = first->copy;
      first->sent = nullptr;
    }
    ++first;
  }
  const auto rest = std::remove_if(first, unsent_.end(), [&](const Unsent& one) {
    const bool is_taken = which(one.frame);
    if (is_taken) {
      taken.push_back(one.frame);
    }
    return is_taken;
  });
  unsent_.erase(rest, unsent_.end());
  return taken;
}

bool Link::write_some(std::size_t& budget) {
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
    parts[count++] = {const_cast<std::byte*>(rest.data()), std::min(rest.size(), budget)};
  }
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  const auto written = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  if (written < 0) {
    if (errno != EAGAIN && errno != EINTR) {
      why_ = "sending: " + reason(errno);  // What it sent before is still to be read.
      is_deaf_ = true;
      unsent_.clear();
      sent_ = 0;
    }
    return false;
  }
  const auto bytes = static_cast<std::size_t>(written);
  sent_ += bytes;
  bytes_sent_ += bytes;
  budget -= std::min(budget, bytes);
  return true;
}

void Link::write() {
  std::size_t budget = kTurnBytes;
  while (is_open() && !connecting_ && !unsent_.empty() && budget > 0 && write_some(budget)) {
    if (sent_ == sizeof(Frame) + unsent_.front().payload.size()) {
      const auto sent = std::move(unsent_.front().sent);
      unsent_.pop_front();
      sent_ = 0;
      if (sent) {
        sent();
      }
    }
  }
  if (is_open() && !connecting_ && ends_ && !has_ended_ && unsent_.empty()) {
    has_ended_ = true;
    ::shutdown(socket_.get(), SHUT_WR);
  }
}

bool Link::fill(std::byte* data, std::size_t bytes, std::size_t& got, std::size_t& budget) {
  std::array<std::byte, std::size_t{16} << 10> nowhere;
  while (got < bytes && budget > 0) {
    const std::size_t most = std::min(bytes - got, budget);
    const auto count =
        data != nullptr ? ::recv(socket_.get(), data + got, most, 0)
                        : ::recv(socket_.get(), nowhere.data(), std::min(most, nowhere.size()), 0);
    if (count > 0) {
      got += static_cast<std::size_t>(count);
      budget -= static_cast<std::size_t>(count);
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
  return got == bytes;
}

void Link::read(const Receiver& receiver) {
  std::size_t budget = kTurnBytes;
  while (is_open() && !connecting_) {
    if (frame_got_ < sizeof(Frame)) {
      if (!fill(reinterpret_cast<std::byte*>(&frame_), sizeof(Frame), frame_got_, budget)) {
        return;
      }
      payload_got_ = 0;
    }
    std::byte* payload = nullptr;
    try {
      if (frame_.magic != Frame::kMagic) {
        throw PeerError("it sent bytes that are none of ours");
      }
      payload = receiver.begin(frame_);
    } catch (const Error& error) {
      close(error.what());
      return;
    }
    if (frame_.has_payload() && !fill(payload, frame_.bytes, payload_got_, budget)) {
      return;
    }
    frame_got_ = 0;
    if (!receiver.end(frame_)) {
      return;
    }
  }
}

}  // namespace lockstep::net
