// What a Group refers to, and how one is built; private to comm.
#pragma once

#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/deadline.h"
#include "lockstep/base/process/fork_guard.h"
#include "lockstep/cluster/discover.h"
#include "lockstep/comm/backend_registry.h"
#include "lockstep/comm/gpu_choice.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/late_ranks.h"
#include "lockstep/comm/progress_board.h"
#include "lockstep/comm/rendezvous/rank_info.h"
#include "lockstep/device/graph.h"

namespace lockstep {

namespace comm {

// The same for the world and all groups made from it.
struct Job {
  cluster::Membership member;
  std::chrono::milliseconds timeout{};
  BackendRegistry registry;
  std::string backends;  // Empty: a local group of one.
  std::vector<std::string> interfaces;
  c10::intrusive_ptr<c10d::Store> store;  // Keys under default_pg, as in Python.
  bool hosts_store = false;
};

}  // namespace comm

struct Group::State {
  // `keys` has those of the group, below its name.
  State(std::shared_ptr<const comm::Job> the_job, c10::intrusive_ptr<c10d::Store> keys,
        std::string the_name, int the_rank, int the_size);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Connects this rank to the others before the deadline; throws what the backends throw.
  void connect(Deadline deadline);
  void close();  // Does nothing in a fork.
  // If one of the ranks hosts the store, that rank leaves last, so that no other rank loses the
  // store: it waits, for some seconds, until `company` ranks are leaving.
  void leave(int company);

  [[nodiscard]] bool is_world() const { return name == "0"; }
  // The number of the next collective on such tensors, the same on all ranks. Messages have no
  // number, because only two ranks know of them.
  [[nodiscard]] std::uint64_t next_number(c10::DeviceType device) const;
  // Counts a collective that has begun.
  void count(c10::DeviceType device);
  // Whether the group ends because of an error: other ranks may come to no collective any more.
  [[nodiscard]] bool has_failed() const;
  // If the current stream is being recorded, its graph may use a backend of this group for GPUs.
  void note_recordings();
  void end_recordings();
  // "rank 1 of 4", and the group's name where it is not the world.
  [[nodiscard]] std::string who() const;
  // As Group::wait_for(); `place` names this rank, too.
  void wait_for(const std::string& place, const std::function<bool()>& is_done, Deadline deadline);
  // What ranks must have in common. A rank that sees a GPU may have one more backend for it.
  [[nodiscard]] comm::RankInfo rank_info() const;

  std::shared_ptr<const comm::Job> job;
  std::string name;  // "0" for the world and "1", "2", ... for its groups, as in Python.
  int rank;
  int size;
  c10::intrusive_ptr<c10d::Store> store;  // Ours alone, below this group's prefix.
  // For this group and for those that are made of it, which begin anew with each world.
  c10::intrusive_ptr<c10d::Store> keys;
  std::map<c10::DeviceType, c10::intrusive_ptr<c10d::Backend>> backends;
  std::map<c10::DeviceType, Capabilities> capabilities;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  comm::ProgressBoard* progress = nullptr;  // One of the backends.
  std::unique_ptr<comm::LateRanksInCrashReport> late_ranks;
  std::mutex gpu_mutex;
  std::optional<comm::GpuChoice> gpu;  // If device() had to ask for it.
  std::mutex recordings_mutex;
  device::Graph::Recordings recordings;  // Which end before the backends do.
  std::atomic<bool> broken{false};       // A wait_for() failed.
  // A backend's first collective will wait for all ranks, so they meet before.
  std::atomic<bool> first_is_due{false};
  // An error that was on its way when the group was made is none of its own.
  std::exception_ptr error_before = std::current_exception();
  int unwinding_before = std::uncaught_exceptions();
  std::atomic<int> children{0};
  std::map<std::string, int> names;           // By kind: how many were given away.
  std::atomic<std::uint64_t> collectives{0};  // Counted here if the backend does not.
  std::atomic<std::uint64_t> barriers{0};
  ForkGuard fork_guard;
  bool closed = false;
  bool left = false;
  // Whether the rank that hosts the store waits until the others have left. A Python rank does not,
  // and nobody could ask it at the end, so this is found out while the group is formed.
  std::optional<bool> host_waits;
};

namespace comm {

// State::connect(), with an error that lists the ranks which did not come.
void connect_or_explain(Group::State& state, const char* operation, Deadline deadline);

// Throws UsageError, which begins with `what`, unless the timeout is more than 0.
void require_positive(const std::string& what, std::chrono::milliseconds timeout);

// Before a collective on such a device. If it is the first one, and the backend waits in it for all
// ranks without a limit: waits until all have come here. Throws PeerError, which begins with
// `what`, if one has ended, and with those that did not come at the timeout, the same ones on every
// rank. With a Python rank in the group it does nothing: that would tell nobody that it comes.
void meet_before_first(Group::State& state, const std::string& what, c10::DeviceType device,
                       std::chrono::milliseconds timeout);

// This rank's host, for local ranks where the environment does not tell them, and the GPUs that it
// sees, for ranks that see fewer than there are ranks on their host.
void publish_place(const Job& job);
struct Place {
  int local_rank = 0;
  int local_size = 1;
  int node_rank = 0;
};
Place find_place(const Job& job);

}  // namespace comm
}  // namespace lockstep
