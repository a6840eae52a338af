#include "lockstep/comm/host_links.h"

#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/no_sigpipe.h"
#include "lockstep/comm/host_verdict.h"
#include "lockstep/comm/peer_error.h"

namespace lockstep::comm {
namespace {

// A rank on the host of one that died knows more than one that lost a connection to it.
constexpr std::chrono::milliseconds kLetOthersSpeak{300};
constexpr std::chrono::milliseconds kGlooNotices{1000};

c10::intrusive_ptr<c10d::Store> below(const BackendRequest& request, const std::string& prefix) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, request.store);
}

}  // namespace

HostLinks::HostLinks(const BackendRequest& request, const HostMap& map, const BackendFactory& gloo)
    : map_(map),
      rank_(request.rank),
      store_(request.store),
      waiter_([this] { return has_ended(); }) {
  const auto deadline = Deadline::in(request.connect_timeout);
  const auto request_for = [&](const std::string& prefix, int rank, std::size_t size) {
    BackendRequest part = request;
    part.store = below(request, prefix);
    part.rank = rank;
    part.size = static_cast<int>(size);
    part.connect_timeout = deadline.as_timeout();
    return part;
  };
  const auto& neighbours = map_.ranks_on(map_.here());
  if (neighbours.size() > 1) {
    const auto inside = request_for("inside/" + std::to_string(map_.here()),
                                    map_.local_rank_of(rank_), neighbours.size());
    try {
      inside_ = c10::make_intrusive<ShmBackend>(inside, neighbours);
    } catch (const PeerError& error) {
      throw PeerError("on " + map_.describe(map_.here()) +
                      ", whose ranks are numbered from 0 here: " + error.what());
    }
  }
  // A lane is a group of its own also where each host has one rank: Gloo counts the collectives of
  // a group, and those of a lane are not started in one order with the others.
  const auto open_lane_and_everybody = [&] {
    const NoSigpipe no_sigpipe;  // For Gloo's threads, which write to connections that we cut.
    everybody_ = gloo(request_for("everybody", rank_, static_cast<std::size_t>(request.size)));
    if (const auto number = map_.lane()) {
      const auto lane = request_for("lane/" + std::to_string(*number), map_.here(),
                                    static_cast<std::size_t>(map_.hosts()));
      of_lane_.add_opened_by([&] { lane_ = gloo(lane); }, map_.addresses_of_all());
    }
  };
  connections_.add_opened_by(open_lane_and_everybody, map_.addresses_of_all());
  connections_.watch(map_.addresses_of_others());
  collectives_.emplace(map_, rank_, request.size, inside_, lane_, waiter_);
}

HostLinks::~HostLinks() {
  leave();
  // A group that is well waits for its works as Gloo does; connections of a broken one are cut, so
  // that what is not done soon never will be.
  if (!broken_.empty() && waiter_.left_one_behind(kGlooNotices)) {
    // Their destructors would wait for it until its timeout; they go with the process.
    (void)everybody_.release();
    (void)c10::intrusive_ptr<c10d::Backend>(lane_).release();
  }
}

// A connection that is closed is no end where there are more hosts than two: a rank may be done
// with a collective, and leave, before the others are.
bool HostLinks::has_ended() const {
  return has_reason(store_, asked_) || (map_.hosts() == 2 && of_lane_.has_closed_one());
}

void HostLinks::leave() {
  if (inside_) {
    inside_->shutdown();
  }
}

void HostLinks::leave_at_once() {
  {
    const std::lock_guard lock(mutex_);
    if (broken_.empty()) {
      broken_ = "rank " + std::to_string(rank_) + " has left the group; form a new one";
    }
  }
  (void)first_reason(store_, broken_);
  leave();
  connections_.cut();
}

void HostLinks::fail(const std::string& what, const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) {
    throw UsageError(error.what());
  }
  if (is_argument_error(words_of(error))) {
    throw UsageError(what + ": " + words_of(error));
  }
  throw_if_broken(what);
  const bool from_inside = dynamic_cast<const PeerError*>(&error) != nullptr;
  if (!from_inside) {
    std::this_thread::sleep_for(kLetOthersSpeak);
  }
  const std::string reason =
      first_reason(store_, reason_of(error, map_, rank_, connections_.silent()));
  {
    const std::lock_guard lock(mutex_);
    if (broken_.empty()) {
      broken_ = reason;
    }
  }
  if (inside_) {
    inside_->break_up(reason);
  }
  connections_.cut();
  throw_if_broken(what);
  throw PeerError(what + ": " + reason);  // Not reached: it is broken now.
}

void HostLinks::throw_if_broken(const std::string& what) const {
  const std::lock_guard lock(mutex_);
  if (!broken_.empty()) {
    throw PeerError(what + ": " + broken_);
  }
}

}  // namespace lockstep::comm
