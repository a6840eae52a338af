#include "lockstep/comm/store_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/socket.h"
#include "lockstep/base/text/text.h"

namespace lockstep::comm {
namespace {

constexpr const char* kUsage =
    "usage: lockstep-store --listen-fd N\n"
    "Serves a c10d TCPStore on the listening socket N that the parent process opened.\n"
    "Started by 'lockstep run', and ended by it with SIGTERM.\n";

Endpoint address_of(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    throw UsageError("descriptor " + std::to_string(fd) +
                     " is not a socket; expected one that listens");
  }
  char host[INET6_ADDRSTRLEN] = {};
  if (bound.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(bound);
    ::inet_ntop(AF_INET6, &address.sin6_addr, host, sizeof host);
    return {host, ntohs(address.sin6_port)};
  }
  const auto& address = reinterpret_cast<const sockaddr_in&>(bound);
  ::inet_ntop(AF_INET, &address.sin_addr, host, sizeof host);
  return {std::strcmp(host, "0.0.0.0") == 0 ? "127.0.0.1" : host, ntohs(address.sin_port)};
}

void serve(int fd) {
  const auto endpoint = address_of(fd);
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(endpoint.port);
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = fd;
  const c10d::TCPStore store(endpoint.host, options);
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  int signal = 0;
  ::sigwait(&ends, &signal);
}

}  // namespace

int store_main(int argc, char** argv) {
  const auto fd =
      argc == 3 && std::strcmp(argv[1], "--listen-fd") == 0 ? parse_int(argv[2]) : std::nullopt;
  if (!fd || *fd < 0) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  // Blocked before any thread exists, so that main alone takes it. A terminal's
  // interrupt is for the workers; the store must outlive them.
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    ::sigaddset(&blocked, signal);
  }
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  try {
    serve(static_cast<int>(*fd));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-store: %s\n", error.what());
    return 1;
  }
  std::_Exit(0);
}

}  // namespace lockstep::comm
