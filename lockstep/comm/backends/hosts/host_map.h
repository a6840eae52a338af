// Which ranks of a group share a host, and which of them carry bytes to the other hosts.
//
// A lane is a group of ranks, one of each host. There are as many lanes as the smallest host has
// ranks; each carries its share of a tensor, so a host sends every byte once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::comm {

// What a rank tells the others about where it is.
struct HostCard {
  std::string id;                      // The same for ranks that can share memory: host_id().
  std::string name;                    // For messages.
  std::vector<std::string> addresses;  // Numeric, without loopback and link-local ones.

  static HostCard of_this_process();
  [[nodiscard]] std::string to_text() const;
  // Text that cannot be parsed becomes the id as a whole, so equal texts still mean equal hosts.
  static HostCard from_text(const std::string& text);
};

struct Range {
  std::int64_t at = 0;
  std::int64_t count = 0;
};

class HostMap {
 public:
  // One card per rank of the group.
  HostMap(const std::vector<HostCard>& cards, int rank);

  [[nodiscard]] int hosts() const { return static_cast<int>(hosts_.size()); }
  [[nodiscard]] int here() const { return host_of(rank_); }
  [[nodiscard]] int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::vector<int>& ranks_on(int host) const {
    return hosts_[static_cast<std::size_t>(host)].ranks;
  }
  [[nodiscard]] int local_rank_of(int rank) const;

  [[nodiscard]] int lanes() const { return lanes_; }
  // The lane of this rank; nothing where its host has more ranks than another.
  [[nodiscard]] std::optional<int> lane() const;
  // The part of so many elements that a local rank carries; none for one without a lane.
  [[nodiscard]] Range share(std::int64_t elements, int local_rank) const;

  // "host 'box' (10.0.0.2; ranks 2, 3)".
  [[nodiscard]] std::string describe(int host) const;
  [[nodiscard]] std::vector<std::string> addresses_of_others() const;
  [[nodiscard]] std::vector<std::string> addresses_of_all() const;  // Loopback too.
  // The one other host of which an address stands in this text, if there is exactly one.
  [[nodiscard]] std::optional<int> other_host_named_in(const std::string& text) const;

 private:
  struct Host {
    HostCard card;
    std::vector<int> ranks;
  };
  int rank_;
  std::vector<Host> hosts_;  // In the order of their first ranks.
  std::vector<int> host_of_;
  int lanes_ = 0;
};

}  // namespace lockstep::comm
