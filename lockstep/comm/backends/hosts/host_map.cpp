#include "lockstep/comm/backends/hosts/host_map.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <cctype>

#include "lockstep/base/environment.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text/text.h"

namespace lockstep::comm {
namespace {

std::vector<std::string> addresses_of_this_process() {
  std::vector<std::string> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    return found;
  }
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_LOOPBACK) != 0) {
      continue;
    }
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) {
      continue;
    }
    char text[NI_MAXHOST];
    const auto length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(entry->ifa_addr, static_cast<socklen_t>(length), text, sizeof text, nullptr,
                      0, NI_NUMERICHOST) == 0) {
      const std::string address = text;
      if (address.find('%') == std::string::npos) {  // Not those of one link alone.
        found.push_back(address);
      }
    }
  }
  ::freeifaddrs(first);
  return found;
}

// As a whole: 10.0.0.1 does not stand in "10.0.0.12".
bool stands_in(const std::string& address, const std::string& text) {
  const auto belongs = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == ':';
  };
  for (auto at = text.find(address); at != std::string::npos; at = text.find(address, at + 1)) {
    const auto end = at + address.size();
    const bool begins = at == 0 || !belongs(text[at - 1]) ||
                        text.substr(0, at).ends_with("::ffff:");  // IPv4 on an IPv6 socket.
    const bool ends = end == text.size() || text[end] == ':' || !belongs(text[end]);
    if (begins && ends) {
      return true;
    }
  }
  return false;
}

}  // namespace

HostCard HostCard::of_this_process() {
  // Hosts that the user told apart by hand may be one machine: its name alone would not say which.
  const auto chosen = Environment::of_this_process().get("LOCKSTEP_HOST_ID");
  return {.id = host_id(),
          .name = chosen ? host_name() + "/" + *chosen : host_name(),
          .addresses = addresses_of_this_process()};
}

std::string HostCard::to_text() const { return id + "\n" + name + "\n" + join(addresses, " "); }

HostCard HostCard::from_text(const std::string& text) {
  const auto lines = split(text, '\n');
  if (lines.size() != 3) {
    return {.id = text, .name = text, .addresses = {}};
  }
  HostCard card{.id = lines[0], .name = lines[1], .addresses = split(lines[2], ' ')};
  std::erase(card.addresses, "");
  return card;
}

HostMap::HostMap(const std::vector<HostCard>& cards, int rank) : rank_(rank) {
  for (const auto& card : cards) {
    auto found = std::find_if(hosts_.begin(), hosts_.end(),
                              [&](const Host& host) { return host.card.id == card.id; });
    if (found == hosts_.end()) {
      found = hosts_.insert(hosts_.end(), Host{.card = card, .ranks = {}});
    }
    found->ranks.push_back(static_cast<int>(host_of_.size()));
    host_of_.push_back(static_cast<int>(found - hosts_.begin()));
  }
  const auto smallest = std::min_element(
      hosts_.begin(), hosts_.end(),
      [](const Host& a, const Host& b) { return a.ranks.size() < b.ranks.size(); });
  lanes_ = static_cast<int>(smallest->ranks.size());
}

int HostMap::local_rank_of(int rank) const {
  const auto& ranks = ranks_on(host_of(rank));
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

std::optional<int> HostMap::lane() const {
  const int local = local_rank_of(rank_);
  return local < lanes_ ? std::optional(local) : std::nullopt;
}

Range HostMap::share(std::int64_t elements, int local_rank) const {
  if (local_rank >= lanes_) {
    return {.at = elements, .count = 0};
  }
  // Quotient and remainder: elements * lanes could be too much for 64 bits.
  const std::int64_t each = elements / lanes_;
  const std::int64_t more = elements % lanes_;  // The first have one more.
  return {.at = each * local_rank + std::min<std::int64_t>(local_rank, more),
          .count = each + (local_rank < more ? 1 : 0)};
}

std::string HostMap::describe(int host) const {
  const auto& [card, ranks] = hosts_[static_cast<std::size_t>(host)];
  return "host '" + card.name + "' (" +
         (card.addresses.empty() ? "" : join(card.addresses, ", ") + "; ") +
         (ranks.size() == 1 ? "rank " : "ranks ") + join_numbers(ranks) + ")";
}

std::vector<std::string> HostMap::addresses_of_others() const {
  std::vector<std::string> addresses;
  for (int host = 0; host < hosts(); ++host) {
    if (host != here()) {
      const auto& more = hosts_[static_cast<std::size_t>(host)].card.addresses;
      addresses.insert(addresses.end(), more.begin(), more.end());
    }
  }
  return addresses;
}

std::vector<std::string> HostMap::addresses_of_all() const {
  auto addresses = addresses_of_others();
  const auto& own = hosts_[static_cast<std::size_t>(here())].card.addresses;
  addresses.insert(addresses.end(), own.begin(), own.end());
  addresses.insert(addresses.end(), {"127.0.0.1", "::1"});
  return addresses;
}

std::optional<int> HostMap::other_host_named_in(const std::string& text) const {
  std::optional<int> named;
  for (int host = 0; host < hosts(); ++host) {
    const auto& addresses = hosts_[static_cast<std::size_t>(host)].card.addresses;
    if (host == here() || std::none_of(addresses.begin(), addresses.end(),
                                       [&](const auto& one) { return stands_in(one, text); })) {
      continue;
    }
    if (named) {
      return std::nullopt;
    }
    named = host;
  }
  return named;
}

}  // namespace lockstep::comm
