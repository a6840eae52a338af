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
  auto place = arrivals_.end();
  if (arrival.is_coming) {
    place = std::find_if(arrivals_.begin(), arrivals_.end(), [&](const Arrival& other) {
      return other.from == arrival.from && other.frame.id > arrival.frame.id;
    });
  }
  arrivals_.insert(place, std::move(arrival));
}

void Arrivals::complete(int from, std::uint64_t id, std::vector<std::byte> bytes) {
  const auto found = std::find_if(arrivals_.begin(), arrivals_.end(), [&](const Arrival& arrival) {
    return arrival.is_coming && arrival.from == from && arrival.frame.id == id;
  });
  if (found != arrivals_.end()) {
    bytes_[from] += bytes.size();
    found->frame.kind = Frame::Kind::kMessage;
    found->bytes = std::move(bytes);
    found->is_coming = false;
  }
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

template <class Condition>
void Arrivals::drop(int from, Condition condition) {
  std::erase_if(arrivals_, [&](const Arrival& arrival) {
    const bool is_dropped = arrival.from == from && arrival.frame.kind == Frame::Kind::kOffer &&
                            condition(arrival.frame);
    if (is_dropped) {
      bytes_[from] -= memory_of(arrival);
    }
    return is_dropped;
  });
}

void Arrivals::drop_offers(int from) {
  drop(from, [](const Frame&) { return true; });
}

void Arrivals::drop_offer(int from, std::uint64_t id) {
  drop(from, [&](const Frame& frame) { return frame.id == id; });
}

std::size_t Arrivals::bytes_from(int rank) const {
  const auto found = bytes_.find(rank);
  return found == bytes_.end() ? 0 : found->second;
}

}  // namespace lockstep::net
