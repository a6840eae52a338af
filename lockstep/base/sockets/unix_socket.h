// Unix sockets without a name in the file system, over which descriptors travel.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep {

struct UnixListener {
  UniqueFd fd;       // Non-blocking.
  std::string name;  // In the abstract namespace: goes with the socket.
};
// The kernel chooses a name if none is given. No descriptor if another process has that name.
UnixListener listen_unix(int backlog, const std::string& name = "");

// Returns a non-blocking socket, or none while the listener's queue is full. Throws PeerError if
// nobody listens.
UniqueFd try_connect_unix(const std::string& name);
// Waits while the listener's queue is full. Throws PeerError if nobody listens or at the deadline.
UniqueFd connect_unix(const std::string& name, Deadline deadline);

// Two sockets that are connected with each other, for a parent and its child. Throws IoError that
// begins with `what`.
std::pair<UniqueFd, UniqueFd> connected_pair(const std::string& what);

// The process at the other end, as the kernel knows it; pid 0 if it is in another pid namespace.
struct Credentials {
  pid_t pid = 0;
  uid_t uid = 0;
};
Credentials credentials_of(int socket);

enum class Sent {
  kSent,
  kPeerGone,
  // The kernel counts the descriptors that all processes of a user have sent and nobody has
  // received yet. It refuses more than one process may have open (ulimit -n).
  kTooManyInFlight,
};
// Sends one message with one descriptor. Throws IoError for errors that neither the peer nor the
// user caused.
Sent send_with_fd(int socket, std::string_view message, int fd);

struct Parcel {
  std::string message;
  UniqueFd fd;
};
// Returns nothing if the peer closed the socket, or sent more than `limit` bytes or not exactly one
// descriptor. Throws IoError if this process may not have another descriptor. Blocks if there is
// nothing to read and the socket is blocking.
std::optional<Parcel> receive_with_fd(int socket, std::size_t limit);

}  // namespace lockstep
