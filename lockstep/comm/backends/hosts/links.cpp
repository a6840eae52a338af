#include "lockstep/comm/backends/hosts/links.h"

#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/no_sigpipe.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/library_errors.h"
#include "lockstep/comm/wait_for.h"

namespace lockstep::comm {
namespace {

// A rank on the host of one that died knows more than one that lost a connection to it.
constexpr std::chrono::milliseconds kLetOthersSpeak{300};
// A rank that waited in vain knows more than those whose connections Gloo then closes, so it must
// speak before them: it asks the hosts for no longer than this which of them has not begun.
constexpr std::chrono::milliseconds kAsk{250};
constexpr std::chrono::milliseconds kGlooNotices{1000};
// How often a rank that waits for something else asks whether another has ended the group.
constexpr std::chrono::milliseconds kLookAtOtherHosts{1000};

// A rank may be done with a collective, and leave, before the others are: what it sent arrives
// soon after.
constexpr std::chrono::milliseconds kLastBytes{2000};

BackendRequest part_of(const BackendRequest& request, const std::string& prefix, int rank,
                       std::size_t size) {
  BackendRequest part = request;
  part.store = c10::make_intrusive<c10d::PrefixStore>(prefix, request.store);
  part.rank = rank;
  part.size = static_cast<int>(size);
  return part;
}

std::string place_key(int rank) { return "place/" + std::to_string(rank); }

}  // namespace

HostLinks::HostLinks(const BackendRequest& request, const HostMap& map, const BackendFactory& gloo)
    : map_(map),
      rank_(request.rank),
      store_(request.store),
      reason_(request.store),
      waiter_([this] { return has_ended(); }),
      mailbox_(request.rank, message_address(request.interfaces)) {
  const auto deadline = Deadline::in(request.connect_timeout);
  const auto& neighbours = map_.ranks_on(map_.here());
  if (neighbours.size() > 1) {
    const auto inside = part_of(request, "inside/" + std::to_string(map_.here()),
                                map_.local_rank_of(rank_), neighbours.size());
    try {
      inside_ = c10::make_intrusive<ShmBackend>(inside, neighbours);
    } catch (const PeerError& error) {
      throw PeerError("on " + map_.describe(map_.here()) +
                      ", whose ranks are numbered from 0 here: " + error.what());
    }
  }
  BackendRequest rest = request;
  rest.connect_timeout = deadline.as_timeout();
  exchange_places(open_lane(rest, gloo), request.size, deadline);
  connections_.watch(map_.addresses_of_others());
  collectives_.emplace(HostParts{.map = map_,
                                 .rank = rank_,
                                 .size = request.size,
                                 .inside = inside_,
                                 .lane = lane_,
                                 .mailbox = &mailbox_},
                       waiter_);
}

std::vector<int> HostLinks::open_lane(const BackendRequest& request, const BackendFactory& gloo) {
  const auto number = map_.lane();
  if (!number) {
    return {};
  }
  const NoSigpipe no_sigpipe;  // For Gloo's threads, which write to connections that we cut.
  const auto lane = part_of(request, "lane/" + std::to_string(*number), map_.here(),
                            static_cast<std::size_t>(map_.hosts()));
  return connections_.add_opened_by([&] { lane_ = gloo(lane); }, map_.addresses_of_all());
}

void HostLinks::exchange_places(const std::vector<int>& ports, int size, Deadline deadline) {
  const std::string place = join_numbers(ports) + "\n" + mailbox_.own_address();
  store_->set(place_key(rank_), std::vector<std::uint8_t>(place.begin(), place.end()));
  std::vector<int> theirs;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < size; ++rank) {
    store_->wait({place_key(rank)}, deadline.as_timeout());
    const auto lines = split(store_->get_to_str(place_key(rank)), '\n');
    for (const auto& number : split(lines.front(), ',')) {
      if (const auto port = parse_int(trim(number)); port && rank != rank_) {
        theirs.push_back(static_cast<int>(*port));
      }
    }
    addresses.push_back(lines.back());
  }
  // Another group's mailbox may have been connected meanwhile.
  connections_.keep_at({.own_ports = ports, .peer_ports = std::move(theirs)});
  mailbox_.open(addresses);
}

HostLinks::~HostLinks() {
  leave();
  mailbox_.stop();  // After this no thread of its own can break the group.
  // A group that is well waits for its works as Gloo does; connections of a broken one are cut, so
  // that what is not done soon never will be.
  if (is_broken() && waiter_.left_one_behind(kGlooNotices)) {
    // Its destructor would wait for it until its timeout; it goes with the process.
    (void)c10::intrusive_ptr<c10d::Backend>(lane_).release();
  }
}

// A host that took the store with it cannot be asked. So a connection of the lane that stays
// closed, while somebody waits, is an end as well.
bool HostLinks::has_ended() const {
  if (reason_.is_given()) {
    return true;
  }
  if (!connections_.has_closed_one()) {
    return false;
  }
  const auto now = Deadline::Clock::now();
  auto since = Deadline::Clock::time_point{};
  closed_since_.compare_exchange_strong(since, now);  // The first time that it is seen.
  return since != Deadline::Clock::time_point{} && now - since > kLastBytes;
}

void HostLinks::begin(const shm::CallName& name) {
  begun_ = name.number;
  mailbox_.set_progress(name.number);
  if (inside_) {
    inside_->be_part_of(name);
  }
}

void HostLinks::wait_for(const std::string& what, const std::function<bool()>& is_done,
                         Deadline deadline) {
  throw_if_broken(what);
  auto next_look = Deadline::in(kLookAtOtherHosts);
  const auto is_over = [&] {
    if (is_done()) {
      return true;
    }
    if (next_look.passed()) {
      next_look = Deadline::in(kLookAtOtherHosts);
      // Not has_ended(): a rank of the lane may have left in order.
      if (reason_.is_given()) {
        throw PeerError(what +
                        ": a rank has ended the group");  // Its reason takes this one's place.
      }
    }
    return false;
  };
  try {
    if (inside_) {
      inside_->wait_for(what, is_over, deadline);
    } else {
      wait_alone(what, is_over, deadline);
    }
  } catch (const PeerError& error) {
    fail(what, error);
  }
}

void HostLinks::leave() {
  is_leaving_ = true;
  if (inside_) {
    inside_->shutdown();
  }
  mailbox_.close(has_left().what(), net::Mailbox::Close::kPolitely);
}

void HostLinks::leave_at_once() {
  const PeerError reason = break_once(has_left());
  (void)reason_.first(reason);
  mailbox_.close(reason.what(), net::Mailbox::Close::kAtOnce);
  leave();
  connections_.cut();
}

void HostLinks::await(const net::Message& message, Deadline deadline) {
  // Not has_ended(): a rank of the lane may have left in order, and this message is of another.
  comm::await(mailbox_, message, map_, [this] { return reason_.is_given(); }, deadline);
}

void HostLinks::fail_or_leave(const std::string& what, const std::exception_ptr& error,
                              During during) {
  try {
    std::rethrow_exception(error);
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& words) {
    if (is_leaving_) {
      throw PeerError(what + ": " + words_of(words));
    }
    fail(what, words, during);
  }
}

void HostLinks::cut_if_left() {
  if (!is_leaving_) {
    return;
  }
  break_once(has_left());
  connections_.cut();
}

HostLinks::Asked HostLinks::ask_ranks(const std::vector<int>& ranks, Deadline deadline) {
  std::vector<net::MessagePointer> questions;
  for (const int rank : ranks) {
    questions.push_back(mailbox_.ask(rank));
  }
  Asked asked;
  for (const auto& question : questions) {
    const int host = map_.host_of(question->peer());
    if (!mailbox_.wait_until(*question, deadline) || question->error()) {
      asked.mute.insert(host);
    } else if (question->answer() < begun_) {
      asked.late.insert(host);
    }
  }
  return asked;
}

// First one rank of each host, with which this one shares a lane; it may itself wait for a rank of
// its host.
HostLinks::Asked HostLinks::ask_hosts() {
  const auto deadline = Deadline::in(kAsk);
  std::vector<int> of_lane;
  std::vector<int> others;
  for (int host = 0; host < map_.hosts(); ++host) {
    for (const int rank : map_.ranks_on(host)) {
      if (host != map_.here()) {
        (map_.local_rank_of(rank) == map_.lane() ? of_lane : others).push_back(rank);
      }
    }
  }
  const auto asked = ask_ranks(of_lane, deadline);
  return asked.late.empty() && asked.mute.empty() ? ask_ranks(others, deadline) : asked;
}

void HostLinks::fail(const std::string& what, const std::exception& error, During during) {
  throw_if_fork(what);
  if (dynamic_cast<const UsageError*>(&error) != nullptr) {
    throw UsageError(error.what());
  }
  if (fault_of(error) == Fault::kArguments) {
    throw UsageError(what + ": " + words_of(error));
  }
  throw_if_broken(what);
  const auto* known = dynamic_cast<const PeerError*>(&error);
  const bool is_lost_connection =
      known == nullptr || dynamic_cast<const net::RankGone*>(&error) != nullptr;
  const bool is_late = known != nullptr ? known->cause() == PeerError::Cause::kLate
                                        : fault_of(error) == Fault::kLate;
  Witness witness{.rank = rank_};
  if (is_late && during == During::kCollective) {
    const auto others_spoke = Deadline::in(kAsk);
    const auto asked = ask_hosts();
    witness.late.assign(asked.late.begin(), asked.late.end());
    if (is_lost_connection) {  // Else a rank of this host is late, or waits for another host
                               // itself.
      if (witness.late.empty()) {
        witness.late.assign(asked.mute.begin(), asked.mute.end());
      }
      std::this_thread::sleep_until(others_spoke.at());
    }
  } else if (is_lost_connection) {
    std::this_thread::sleep_for(kLetOthersSpeak);
  }
  witness.silent = connections_.silent();
  const PeerError reason = reason_.first(reason_of(error, map_, witness));
  const PeerError first = break_once(reason);
  if (inside_) {
    inside_->break_up(reason.what());
  }
  connections_.cut();
  mailbox_.close(reason.what(), net::Mailbox::Close::kAtOnce);
  throw first.during(what);
}

PeerError HostLinks::has_left() const {
  return PeerError("rank " + std::to_string(rank_) + " has left the group; form a new one");
}

PeerError HostLinks::break_once(const PeerError& reason) {
  const std::lock_guard lock(mutex_);
  return broken_ ? *broken_ : broken_.emplace(reason);
}

void HostLinks::throw_if_broken(const std::string& what) const {
  throw_if_fork(what);
  const std::lock_guard lock(mutex_);
  if (broken_) {
    throw broken_->during(what);
  }
}

void HostLinks::throw_if_fork(const std::string& what) const {
  if (!in_owner()) {
    throw UsageError(what +
                     ": this process is a fork of the rank and no member of its groups; form one "
                     "after fork(), or leave it to the parent");
  }
}

bool HostLinks::is_broken() const {
  const std::lock_guard lock(mutex_);
  return broken_.has_value();
}

}  // namespace lockstep::comm
