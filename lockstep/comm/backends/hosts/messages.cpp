#include "lockstep/comm/backends/hosts/messages.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/sockets/socket.h"

namespace lockstep::comm {
namespace {

std::optional<std::string> text_of(const sockaddr* address) {
  if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) {
    return std::nullopt;
  }
  const auto length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  char text[NI_MAXHOST];
  if (::getnameinfo(address, static_cast<socklen_t>(length), text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return std::nullopt;
  }
  return text;
}

std::optional<std::string> address_of_interface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return std::nullopt;
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_name == name) {
      if (auto text = text_of(entry->ifa_addr)) {
        return text;
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> address_of_name(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) {
    return std::nullopt;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    auto text = text_of(entry->ai_addr);
    if (text && is_this_machine(*text)) {
      return text;
    }
  }
  return std::nullopt;
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace

std::string message_address(const std::vector<std::string>& interfaces) {
  if (interfaces.empty()) {
    return address_of_name(host_name()).value_or("127.0.0.1");
  }
  const auto address = address_of_interface(interfaces.front());
  if (!address) {
    throw UsageError("interface '" + interfaces.front() +
                     "' has no address, expected one that other hosts can reach");
  }
  return *address;
}

net::MessagePointer post_send(net::Mailbox& mailbox, int to, std::uint64_t tag,
                              const at::Tensor& tensor) {
  return mailbox.send(to, tag, bytes_of(tensor), std::make_shared<at::Tensor>(tensor));
}

net::MessagePointer post_receive(net::Mailbox& mailbox, int from, std::uint64_t tag,
                                 const at::Tensor& tensor) {
  return mailbox.receive(from, tag, bytes_of(tensor), std::make_shared<at::Tensor>(tensor));
}

void await(net::Mailbox& mailbox, const net::Message& message, const HostMap& map,
           const std::function<bool()>& has_ended, Deadline deadline) {
  constexpr std::chrono::milliseconds kLook{500};
  const std::string where = message.peer() == net::kAnySource
                                ? ""
                                : " (it is on " + map.describe(map.host_of(message.peer())) + ")";
  bool had_ended = false;
  while (!mailbox.wait_until(message, Deadline::in(std::min(kLook, deadline.remaining())))) {
    if (deadline.passed()) {
      throw PeerError("timed out: " + message.late_after(to_text(deadline.total())) + where +
                          "; see the log there, or raise the timeout if it is only slow",
                      PeerError::Cause::kLate);
    }
    if (had_ended) {
      throw PeerError("the group has ended, for a reason that this rank cannot ask for" + where);
    }
    had_ended = has_ended();
  }
  if (const auto error = message.error()) {
    std::rethrow_exception(error);
  }
}

}  // namespace lockstep::comm
