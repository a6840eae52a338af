#include "lockstep/net/arrivals.h"

#include <algorithm>
#include <utility>

namespace lockstep::net {
namespace {

// An empty message takes memory, too.
std::size_t memory_of(const Arrival& arrival) { return sizeof(Arrival) + arrival.bytes.size(); }

}  // namespace

void Arrivals::add(Arrival arrival) {
  bytes_[arrival.from] += memory_of(arrival);
  arrivals_.push_back(std::move(arrival));
}

std::optional<Arrival> Arrivals::take(int from, std::uint64_t tag) {
  const auto found = std::find_if(arrivals_.begin(), arrivals_.end(), [&](const Arrival& arrival) {
    return (from == kAnySource || from == arrival.from) && tag == arrival.frame.tag;
  });
  if (found == arrivals_.end()) {
    return std::nullopt;
  }
  Arrival arrival = std::move(*found);
  arrivals_.erase(found);
  bytes_[arrival.from] -= memory_of(arrival);
  return arrival;
}

void Arrivals::drop_offers(int from) {
  std::erase_if(arrivals_, [&](const Arrival& arrival) {
    const bool is_dropped = arrival.from == from && arrival.frame.kind == Frame::Kind::kOffer;
    if (is_dropped) {
      bytes_[from] -= memory_of(arrival);
    }
    return is_dropped;
  });
}

std::size_t Arrivals::bytes_from(int rank) const {
  const auto found = bytes_.find(rank);
  return found == bytes_.end() ? 0 : found->second;
}

}  // namespace lockstep::net
