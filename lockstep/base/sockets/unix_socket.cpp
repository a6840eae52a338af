#include "lockstep/base/sockets/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

UniqueFd new_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    throw_errno("opening a Unix socket");
  }
  return fd;
}

struct Address {
  sockaddr_un value{.sun_family = AF_UNIX};
  socklen_t length = 0;

  // Empty: the kernel picks a free name. The first byte of an abstract name is 0.
  explicit Address(const std::string& name)
      : length(
            static_cast<socklen_t>(name.empty() ? sizeof value.sun_family : kFirst + name.size())) {
    std::memcpy(value.sun_path + 1, name.data(), name.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }

  static constexpr std::size_t kFirst = offsetof(sockaddr_un, sun_path) + 1;
};

union ControlBuffer {
  cmsghdr header;  // For its alignment.
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

// All of them, so that those which nobody asked for are closed: the padding of a control buffer
// for one has room for two.
std::vector<UniqueFd> descriptors_in(msghdr& header) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_RIGHTS) {
      for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= item->cmsg_len; at += sizeof(int)) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(item) + at, sizeof fd);
        fds.emplace_back(fd);
      }
    }
  }
  return fds;
}

}  // namespace

UnixListener listen_unix(int backlog, const std::string& name) {
  UniqueFd fd = new_socket();
  Address address(name);
  if (::bind(fd.get(), address.get(), address.length) != 0 || ::listen(fd.get(), backlog) != 0) {
    if (errno == EADDRINUSE) {
      return {};
    }
    throw_errno("listening on a Unix socket");
  }
  address.length = sizeof address.value;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address.value), &address.length) != 0) {
    throw_errno("the name of a Unix socket");
  }
  const auto first = Address::kFirst;
  return {std::move(fd),
          {address.value.sun_path + 1, address.length > first ? address.length - first : 0}};
}

UniqueFd try_connect_unix(const std::string& name) {
  if (name.empty() || name.size() + 1 > sizeof sockaddr_un::sun_path) {
    throw PeerError("a peer's Unix socket has no usable name");
  }
  const Address address(name);
  UniqueFd fd = new_socket();
  while (::connect(fd.get(), address.get(), address.length) != 0) {
    if (errno == EAGAIN) {
      return UniqueFd();
    }
    if (errno != EINTR) {
      throw PeerError(std::string("connecting to a peer's Unix socket: ") + std::strerror(errno));
    }
  }
  return fd;
}

UniqueFd connect_unix(const std::string& name, Deadline deadline) {
  while (true) {
    if (UniqueFd fd = try_connect_unix(name)) {
      return fd;
    }
    if (deadline.passed()) {
      throw PeerError("the queue of a peer's Unix socket is full after " +
                      to_text(deadline.total()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::pair<UniqueFd, UniqueFd> connected_pair(const std::string& what) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw_errno(what);
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Credentials credentials_of(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    throw_errno("the credentials of a peer at a Unix socket");
  }
  return {peer.pid, peer.uid};
}

Sent send_with_fd(int socket, std::string_view message, int fd) {
  iovec part{.iov_base = const_cast<char*>(message.data()), .iov_len = message.size()};
  ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    return Sent::kSent;  // Messages are sent whole.
  }
  if (errno == ETOOMANYREFS) {
    return Sent::kTooManyInFlight;
  }
  if (errno == EPIPE || errno == ECONNRESET) {
    return Sent::kPeerGone;
  }
  throw_errno("sending a descriptor over a Unix socket");
}

std::optional<Parcel> receive_with_fd(int socket, std::size_t limit) {
  std::string buffer(limit, '\0');
  iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
  ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();
  ssize_t length = 0;
  do {
    length = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length <= 0) {
    return std::nullopt;
  }
  auto fds = descriptors_in(header);
  if (fds.empty() && (static_cast<unsigned>(header.msg_flags) & MSG_CTRUNC) != 0) {
    throw IoError(
        "this process may not have another descriptor, and a peer's message comes with one; raise "
        "`ulimit -n`");
  }
  if (fds.size() != 1 ||
      (static_cast<unsigned>(header.msg_flags) & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return std::nullopt;
  }
  buffer.resize(static_cast<std::size_t>(length));
  return Parcel{std::move(buffer), std::move(fds.front())};
}

}  // namespace lockstep
