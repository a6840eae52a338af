// Messages that came before anybody asked for them.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/net/frame.h"
#include "lockstep/net/message.h"

namespace lockstep::net {

// A message that came: all of it, or the offer of it.
struct Arrival {
  int from = kAnySource;
  Frame frame = {};
  std::vector<std::byte> bytes = {};
};

// For one thread.
class Arrivals {
 public:
  void add(Arrival arrival);
  // The first one of that source, which may be kAnySource, and tag.
  std::optional<Arrival> take(int from, std::uint64_t tag);
  // Drops what this rank has offered and not sent.
  void drop_offers(int from);
  // The memory that messages of this rank take.
  [[nodiscard]] std::size_t bytes_from(int rank) const;

 private:
  std::list<Arrival> arrivals_;
  std::map<int, std::size_t> bytes_;  // By source.
};

}  // namespace lockstep::net
