// What a rank of a job on several hosts holds: shared memory inside its host, Gloo between the
// hosts of its lane, and a mailbox for messages.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/deadline.h"
#include "lockstep/base/process/fork_guard.h"
#include "lockstep/comm/backend_registry.h"
#include "lockstep/comm/backends/hosts/collectives.h"
#include "lockstep/comm/backends/hosts/connections.h"
#include "lockstep/comm/backends/hosts/failure_reason.h"
#include "lockstep/comm/backends/hosts/host_map.h"
#include "lockstep/comm/backends/hosts/messages.h"
#include "lockstep/comm/backends/shm/backend.h"

namespace lockstep::comm {

// It opens them, and ends the group on all ranks when one of them fails. fail() from any thread.
// A fork may ask in_owner(), throw_if_fork() and throw_if_broken(), and must not destroy it: its
// sockets, its place in the store and its threads are the parent's.
class HostLinks {
 public:
  // All ranks call it. Throws PeerError if a rank does not come in time.
  HostLinks(const BackendRequest& request, const HostMap& map, const BackendFactory& gloo);
  ~HostLinks();
  HostLinks(const HostLinks&) = delete;
  HostLinks& operator=(const HostLinks&) = delete;

  // Names the collective that begins: errors inside the host speak of it, and other hosts that wait
  // for this one ask for its number.
  void begin(const shm::CallName& name);
  // Through the hosts; one at a time.
  [[nodiscard]] const HostCollectives& collectives() const { return *collectives_; }
  // Between any two ranks.
  [[nodiscard]] net::Mailbox& mailbox() { return mailbox_; }
  // Blocks until the message is done. Throws what it failed with, and PeerError at the deadline or
  // when the group has ended.
  void await(const net::Message& message, Deadline deadline);

  enum class During { kMessage, kCollective };
  // Ends the group on all ranks after an error, as far as they can be reached; the first rank's
  // reason becomes everybody's. Throws PeerError with it; UsageError passes. Asks the other hosts
  // which of them a late collective waits for.
  [[noreturn]] void fail(const std::string& what, const std::exception& error,
                         During during = During::kMessage);
  // The same, but what fails because this rank leaves is no error of the group.
  [[noreturn]] void fail_or_leave(const std::string& what, const std::exception_ptr& error,
                                  During during = During::kMessage);
  // To be called after a collective failed. If it failed because this rank leaves, cuts the lane:
  // nobody will finish what this rank began there, and Gloo's destructor would wait for it.
  void cut_if_left();
  // Waits until is_done(), which is asked often. Throws PeerError at the deadline, or once a rank
  // has ended the group or this host's ranks find one of them gone; all ranks then learn of it.
  void wait_for(const std::string& what, const std::function<bool()>& is_done, Deadline deadline);
  // Null for the only rank of a host.
  [[nodiscard]] ShmBackend* inside() const { return inside_.get(); }
  [[nodiscard]] const HostMap& map() const { return map_; }
  // Throws PeerError with that reason once there is one; UsageError in a fork.
  void throw_if_broken(const std::string& what) const;
  void throw_if_fork(const std::string& what) const;
  [[nodiscard]] bool in_owner() const { return fork_guard_.in_owner(); }
  [[nodiscard]] bool is_broken() const;
  // For Gloo's collectives, which may not notice that the group has ended.
  [[nodiscard]] const GlooWait& waiter() const { return waiter_; }
  void leave();
  // Leaves although works are unfinished: whoever waits for them gets an error, here and on the
  // other ranks.
  void leave_at_once();

 private:
  // Returns the ports at which Gloo listens.
  std::vector<int> open_lane(const BackendRequest& request, const BackendFactory& gloo);
  // Tells the others where this rank listens, and hears it of them.
  void exchange_places(const std::vector<int>& ports, int size, Deadline deadline);
  [[nodiscard]] bool has_ended() const;
  // In a collective that timed out.
  struct Asked {
    std::set<int> late;  // Hosts with a rank that has not begun it.
    std::set<int> mute;  // Hosts with a rank that does not answer: it may be stopped.
  };
  [[nodiscard]] Asked ask_hosts();
  [[nodiscard]] Asked ask_ranks(const std::vector<int>& ranks, Deadline deadline);
  [[nodiscard]] PeerError has_left() const;
  // Breaks the group here, unless it is broken; returns why it is.
  PeerError break_once(const PeerError& reason);

  ForkGuard fork_guard_;
  HostMap map_;
  int rank_;
  c10::intrusive_ptr<c10d::Store> store_;
  mutable SharedReason reason_;  // Asks the store, so it is not constant.
  Connections connections_;      // The lane's.
  mutable std::atomic<Deadline::Clock::time_point> closed_since_{};  // One of them.
  GlooWait waiter_;
  c10::intrusive_ptr<ShmBackend> inside_;       // Null for the only rank of a host.
  c10::intrusive_ptr<c10d::Backend> lane_;      // Null for a rank without a lane.
  std::optional<HostCollectives> collectives_;  // Set by the constructor.
  mutable std::mutex mutex_;
  std::optional<PeerError> broken_;  // Why; nothing while all is well.
  std::atomic<bool> is_leaving_{false};
  std::atomic<std::uint64_t> begun_{0};  // The number of the last collective.
  net::Mailbox mailbox_;                 // Last: its thread uses the others.
};

}  // namespace lockstep::comm
