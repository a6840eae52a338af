#include "lockstep/comm/rendezvous/local_meeting.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::comm {
namespace {

struct Address {
  sockaddr_un value{};
  socklen_t size = 0;
};

Address address_of(const std::string& name) {
  const std::string full = "lockstep/" + std::to_string(::getuid()) + "/" + name;
  Address address;
  address.value.sun_family = AF_UNIX;
  // The leading NUL makes it abstract; job ids longer than the field are cut, front first.
  constexpr std::size_t kRoom = sizeof address.value.sun_path - 1;
  const std::string cut = full.size() > kRoom ? full.substr(full.size() - kRoom) : full;
  std::memcpy(address.value.sun_path + 1, cut.data(), cut.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + cut.size());
  return address;
}

UniqueFd unix_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) {
    throw_errno("opening a Unix socket");
  }
  return fd;
}

bool same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::getuid();
}

bool readable(int fd, Deadline deadline) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, deadline.poll_timeout()) > 0;
}

bool receive(int fd, std::int32_t& value, Deadline deadline) {
  return readable(fd, deadline) && ::recv(fd, &value, sizeof value, 0) == sizeof value;
}

bool send_value(int fd, std::int32_t value) {
  return ::send(fd, &value, sizeof value, MSG_NOSIGNAL) == sizeof value;
}

std::string missing_text(const std::vector<bool>& arrived) {
  std::vector<int> missing;
  for (std::size_t rank = 1; rank < arrived.size(); ++rank) {
    if (!arrived[rank]) {
      missing.push_back(static_cast<int>(rank));
    }
  }
  return (missing.size() == 1 ? "rank " : "ranks ") + join_numbers(missing);
}

}  // namespace

LocalMeeting LocalMeeting::open(const std::string& name) {
  UniqueFd fd = unix_socket();
  const Address address = address_of(name);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.value), address.size) != 0 ||
      ::listen(fd.get(), 1024) != 0) {
    if (errno == EADDRINUSE) {
      throw UsageError("rank 0: another process holds the meeting '" + name +
                       "' of this host; is the job started twice? Set MASTER_ADDR and MASTER_PORT "
                       "to meet elsewhere");
    }
    throw_errno("opening the meeting '" + name + "'");
  }
  return LocalMeeting(std::move(fd));
}

void LocalMeeting::announce(int port, int world_size, Deadline deadline) {
  std::vector<bool> arrived(static_cast<std::size_t>(world_size));
  for (int left = world_size - 1; left > 0;) {
    if (deadline.passed()) {
      throw PeerError("rank 0: " + missing_text(arrived) + " did not come within " +
                      to_text(deadline.total()) +
                      "; see whether they were started, or raise the timeout");
    }
    if (!readable(socket_.get(), deadline)) {
      continue;
    }
    const UniqueFd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // Out of descriptors, say.
    }
    std::int32_t rank = -1;
    if (!peer || !same_user(peer.get()) ||
        !receive(peer.get(), rank, Deadline::in(std::chrono::seconds(2)))) {
      continue;  // A stranger, or one that died at once: not our rank.
    }
    if (rank > 0 && rank < world_size && send_value(peer.get(), port) &&
        !arrived[static_cast<std::size_t>(rank)]) {
      arrived[static_cast<std::size_t>(rank)] = true;
      --left;
    }
  }
}

int LocalMeeting::ask(const std::string& name, int rank, Deadline deadline) {
  const Address address = address_of(name);
  do {
    const UniqueFd fd = unix_socket();
    std::int32_t port = 0;
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.value), address.size) == 0 &&
        same_user(fd.get()) && send_value(fd.get(), rank) && receive(fd.get(), port, deadline)) {
      return port;
    }
    std::this_thread::sleep_for(std::min(deadline.remaining(), std::chrono::milliseconds(10)));
  } while (!deadline.passed());
  throw PeerError("rank " + std::to_string(rank) + ": rank 0 did not open the meeting '" + name +
                  "' on this host within " + to_text(deadline.total()) +
                  "; see whether it was started, or set MASTER_ADDR if it runs on another host");
}

}  // namespace lockstep::comm
