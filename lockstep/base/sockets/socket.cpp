#include "lockstep/base/sockets/socket.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"

namespace lockstep {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Null with the resolver's own words in `why` if the name is unknown.
Addresses resolve(const Endpoint& endpoint, std::string& why) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (error != 0) {
    why = ::gai_strerror(error);
    found = nullptr;
  }
  return {found, &::freeaddrinfo};
}

std::string reason(int error) { return std::generic_category().message(error); }

bool same_host(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || b == nullptr || a->sa_family != b->sa_family) {
    return false;
  }
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

bool only_loopback(const addrinfo* address) {
  const bool any = address != nullptr;
  for (; address != nullptr; address = address->ai_next) {
    const bool loopback =
        address->ai_family == AF_INET
            ? (ntohl(reinterpret_cast<const sockaddr_in*>(address->ai_addr)->sin_addr.s_addr) >>
               24) == 127
            : address->ai_family == AF_INET6 &&
                  IN6_IS_ADDR_LOOPBACK(
                      &reinterpret_cast<const sockaddr_in6*>(address->ai_addr)->sin6_addr);
    if (!loopback) {
      return false;
    }
  }
  return any;
}

// The name of the interface that owns `address`.
std::optional<std::string> interface_of(const sockaddr* address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return std::nullopt;
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (same_host(entry->ifa_addr, address)) {
      return entry->ifa_name;
    }
  }
  return std::nullopt;
}

// TCP lets a socket meet itself when nobody listens on a local port and the kernel happens to
// choose that same port for our end; a loop that retries gets there in the end.
bool is_connected_to_itself(int fd) {
  sockaddr_storage ends[2]{};
  socklen_t sizes[2] = {sizeof ends[0], sizeof ends[1]};
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&ends[0]), &sizes[0]) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&ends[1]), &sizes[1]) == 0 &&
         sizes[0] == sizes[1] && std::memcmp(&ends[0], &ends[1], sizes[0]) == 0;
}

int count(const addrinfo* address) {
  int found = 0;
  for (; address != nullptr; address = address->ai_next) {
    ++found;
  }
  return found;
}

// 0 when connected, else the errno.
int try_connect(int fd, const addrinfo& address, Deadline deadline) {
  if (::connect(fd, address.ai_addr, address.ai_addrlen) == 0) {
    return is_connected_to_itself(fd) ? ECONNREFUSED : 0;
  }
  if (errno != EINPROGRESS) {
    return errno;
  }
  pollfd waiting{fd, POLLOUT, 0};
  // A lost SYN is sent again by a fresh attempt.
  const int patience = std::min(deadline.poll_timeout(), 3000);
  if (::poll(&waiting, 1, patience) <= 0) {
    return ETIMEDOUT;
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 && is_connected_to_itself(fd) ? ECONNREFUSED : error;
}

}  // namespace

Endpoint parse_endpoint(std::string_view text, std::string_view what,
                        std::optional<int> default_port) {
  std::string_view host = text;
  std::optional<std::string_view> port;
  const auto colon = text.rfind(':');
  const bool bracketed = !text.empty() && text.front() == '[';
  const bool bare_ipv6 = !bracketed && colon != std::string_view::npos && text.find(':') != colon;
  if (colon != std::string_view::npos && !bare_ipv6 &&
      (!bracketed || (colon > 0 && text[colon - 1] == ']'))) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const auto fail = [&](const std::string& why) -> Endpoint {
    throw UsageError(std::string(what) + " is '" + std::string(text) + "': " + why +
                     "; expected HOST:PORT with a port from 1 to 65535");
  };
  if (host.empty()) {
    return fail("it has no host");
  }
  if (host.find_first_of("[]") != std::string_view::npos) {
    return fail("a bracket stands alone");
  }
  if (!port) {
    if (!default_port) {
      return fail("it has no port");
    }
    return {std::string(host), *default_port};
  }
  const auto number = parse_int(*port);
  if (!number || *number < 1 || *number > 65535) {
    return fail("'" + std::string(*port) + "' is not a port");
  }
  return {std::string(host), static_cast<int>(*number)};
}

std::string to_text(const Endpoint& endpoint) {
  const bool ipv6 = endpoint.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

bool is_loopback_name(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Listener listen_on(const Endpoint& endpoint) {
  std::string why;
  Addresses addresses = resolve(endpoint, why);
  if (!is_loopback_name(endpoint.host) && only_loopback(addresses.get())) {
    addresses = resolve({"0.0.0.0", endpoint.port}, why);
  }
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    UniqueFd fd(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) {
      why = reason(errno);
      continue;
    }
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(fd.get(), address->ai_addr, address->ai_addrlen) != 0 ||
        ::listen(fd.get(), 4096) != 0) {
      const int error = errno;
      why = reason(error);
      if (error == EADDRINUSE) {
        throw UsageError("listening on " + to_text(endpoint) +
                         ": the port is taken by another program; choose another port, or give "
                         "none and lockstep finds a free one");
      }
      continue;
    }
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size);
    const auto port = bound.ss_family == AF_INET6
                          ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                          : reinterpret_cast<const sockaddr_in&>(bound).sin_port;
    return {std::move(fd), ntohs(port)};
  }
  throw UsageError("listening on " + to_text(endpoint) + ": " + why +
                   "; expected an address of this machine");
}

Accepted accept_on(const Listener& listener) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  auto* address = reinterpret_cast<sockaddr*>(&peer);
  UniqueFd fd(::accept4(listener.fd.get(), address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
  char host[NI_MAXHOST] = {};
  if (fd) {
    ::getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  }
  return {std::move(fd), host};
}

UniqueFd connect_to(const Endpoint& endpoint, Deadline deadline) {
  std::string why = "no address";
  do {
    const Addresses addresses = resolve(endpoint, why);
    int left = count(addresses.get());
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
      UniqueFd fd(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      // One that does not answer must leave time for the others.
      const Deadline turn = Deadline::in(deadline.remaining() / left--);
      const int error = fd ? try_connect(fd.get(), *address, turn) : errno;
      if (error == 0) {
        return fd;
      }
      why = reason(error);
    }
    std::this_thread::sleep_for(std::min(deadline.remaining(), std::chrono::milliseconds(100)));
  } while (!deadline.passed());
  throw PeerError("connecting to " + to_text(endpoint) + ": " + why + " after " +
                  to_text(deadline.total()) +
                  "; check the address, and that the program that listens there was started");
}

bool is_this_machine(const std::string& host) {
  std::string why;
  const Addresses addresses = resolve({host, 0}, why);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    // Only an address of this machine can be bound; interfaces do not list all of 127.0.0.0/8.
    const UniqueFd fd(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd && ::bind(fd.get(), address->ai_addr, address->ai_addrlen) == 0) {
      return true;
    }
  }
  return false;
}

std::optional<std::string> interface_towards(const std::string& host) {
  std::string why;
  const Addresses addresses = resolve({host, 9}, why);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    // Connecting a datagram socket sends nothing; it only asks the routing table.
    const UniqueFd fd(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local{};
    socklen_t size = sizeof local;
    if (fd && ::connect(fd.get(), address->ai_addr, address->ai_addrlen) == 0 &&
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size) == 0) {
      if (auto name = interface_of(reinterpret_cast<const sockaddr*>(&local))) {
        return name;
      }
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
