#include "lockstep/base/sockets/tcp_liveness.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace lockstep {
namespace {

constexpr unsigned kSilentMs = 3000;
constexpr unsigned kUnansweredProbes = 3;

void set_tcp_option(int fd, int level, int name, int value) {
  (void)::setsockopt(fd, level, name, &value, sizeof value);  // Without it the deadlines remain.
}

}  // namespace

void keep_alive(int fd) {
  set_tcp_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_tcp_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set_tcp_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_tcp_option(fd, IPPROTO_TCP, TCP_KEEPCNT, static_cast<int>(kUnansweredProbes));
}

// Not TCP_USER_TIMEOUT: that also ends a connection whose peer is alive and reads nothing.
bool is_silent(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) {
    return false;
  }
  return (info.tcpi_unacked > 0 && info.tcpi_last_ack_recv > kSilentMs &&
          info.tcpi_retransmits >= kUnansweredProbes) ||
         info.tcpi_probes >= kUnansweredProbes;
}

}  // namespace lockstep
