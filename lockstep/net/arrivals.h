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
  // An offer that was taken for a receive which was given up since: the bytes are under way.
  bool is_coming = false;
};

// For one thread.
class Arrivals {
 public:
  // Adds it behind the others. One that is still coming goes before what its rank sent after it.
  void add(Arrival arrival);
  // What was coming is here.
  void complete(int from, std::uint64_t id, std::vector<std::byte> bytes);
  // The first one of that source, which may be kAnySource, and tag.
  std::optional<Arrival> take(int from, std::uint64_t tag);
  // Drops what this rank has offered and not sent: all, or the one with this number.
  void drop_offers(int from);
  void drop_offer(int from, std::uint64_t id);
  // The memory that messages of this rank take.
  [[nodiscard]] std::size_t bytes_from(int rank) const;

 private:
  template <class Condition>
  void drop(int from, Condition condition);

  std::list<Arrival> arrivals_;
  std::map<int, std::size_t> bytes_;  // By source.
};

}  // namespace lockstep::net
