// What a rank of a job on several hosts holds: shared memory inside its host, Gloo between hosts.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/backend_registry.h"
#include "lockstep/comm/connections.h"
#include "lockstep/comm/host_map.h"
#include "lockstep/comm/shm_backend.h"

namespace lockstep::comm {

// One collective at a time; fail() from any thread.
class HostLinks {
 public:
  // All ranks call it. Throws PeerError if a rank does not come in time.
  HostLinks(const BackendRequest& request, const HostMap& map, const BackendFactory& gloo);
  ~HostLinks();
  HostLinks(const HostLinks&) = delete;
  HostLinks& operator=(const HostLinks&) = delete;

  [[nodiscard]] const HostMap& map() const { return map_; }
  // Gloo among all ranks, for what needs no host in between.
  [[nodiscard]] const c10::intrusive_ptr<c10d::Backend>& everybody() const { return everybody_; }

  // The collectives. Tensors are on the CPU and without gaps; what they hold after an error is
  // undefined.
  void all_reduce(const at::Tensor& tensor, const c10d::ReduceOp& op, Deadline deadline);
  void broadcast(const at::Tensor& tensor, int root, Deadline deadline);
  void barrier(Deadline deadline);

  // Whether all_reduce() can do it; else it is Gloo's to do, or to refuse.
  [[nodiscard]] static bool reduces(const at::Tensor& tensor, const c10d::ReduceOp& op);

  // Ends the group on all ranks after an error, as far as they can be reached; the first rank's
  // reason becomes everybody's. Throws PeerError with it; UsageError passes.
  [[noreturn]] void fail(const std::string& what, const std::exception& error);
  // Throws PeerError with that reason once there is one.
  void throw_if_broken(const std::string& what) const;
  void leave();
  // With works that are not done: whoever waits for them gets an error, here and elsewhere.
  void leave_at_once();

 private:
  using Tensors = std::vector<at::Tensor>;

  [[nodiscard]] int local_rank() const { return map_.local_rank_of(rank_); }
  [[nodiscard]] Tensors shares_of(const at::Tensor& flat) const;
  // A piece of a tensor on its way to the other hosts; no work where this rank carries nothing.
  struct Carried {
    Tensors shares;
    at::Tensor sent;
    c10::intrusive_ptr<c10d::Work> work;
  };
  // That all hosts are about to do the same.
  struct Agreement {
    std::string call;
    at::Tensor numbers;
    c10::intrusive_ptr<c10d::Work> work;  // None for a rank without a lane.
  };
  [[nodiscard]] Agreement propose(const std::string& call, Deadline deadline) const;
  // Throws PeerError, on all hosts, that shows all sides if they do not.
  void require(const Agreement& agreement, Deadline deadline) const;
  void sum_inside(const Tensors& shares, const c10d::ReduceOp& op, Deadline deadline) const;
  [[nodiscard]] Carried carry(const Tensors& shares, const c10d::ReduceOp& op,
                              Deadline deadline) const;
  void arrive(const Carried& carried, const c10d::ReduceOp& op) const;
  void gather_inside(const Tensors& shares, Deadline deadline) const;

  HostMap map_;
  int rank_;
  c10::intrusive_ptr<c10d::Store> store_;
  Connections connections_;
  c10::intrusive_ptr<ShmBackend> inside_;   // Null for the only rank of a host.
  c10::intrusive_ptr<c10d::Backend> lane_;  // Null for a rank without a lane.
  c10::intrusive_ptr<c10d::Backend> everybody_;
  mutable std::mutex mutex_;
  std::string broken_;  // Why; empty while all is well.
};

}  // namespace lockstep::comm
