#include "lockstep/comm/rendezvous/local_meeting.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/unix_socket.h"
#include "lockstep/base/text/text.h"

namespace lockstep::comm {
namespace {

// Job ids for which there is no room are cut, front first.
std::string socket_name(const std::string& name) {
  const std::string full = "lockstep/" + std::to_string(::getuid()) + "/" + name;
  constexpr std::size_t kRoom = sizeof sockaddr_un::sun_path - 1;
  return full.size() > kRoom ? full.substr(full.size() - kRoom) : full;
}

bool same_user(int fd) { return credentials_of(fd).uid == ::getuid(); }

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
  UnixListener listener = listen_unix(1024, socket_name(name));
  if (!listener.fd) {
    throw UsageError("rank 0: another process holds the meeting '" + name +
                     "' of this host; is the job started twice? Set MASTER_ADDR and MASTER_PORT "
                     "to meet elsewhere");
  }
  return LocalMeeting(std::move(listener.fd));
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
  do {
    UniqueFd fd;
    try {
      fd = try_connect_unix(socket_name(name));
    } catch (const PeerError&) {  // Nobody listens yet.
    }
    std::int32_t port = 0;
    if (fd && same_user(fd.get()) && send_value(fd.get(), rank) &&
        receive(fd.get(), port, deadline)) {
      return port;
    }
    std::this_thread::sleep_for(std::min(deadline.remaining(), std::chrono::milliseconds(10)));
  } while (!deadline.passed());
  throw PeerError("rank " + std::to_string(rank) + ": rank 0 did not open the meeting '" + name +
                  "' on this host within " + to_text(deadline.total()) +
                  "; see whether it was started, or set MASTER_ADDR if it runs on another host");
}

}  // namespace lockstep::comm
