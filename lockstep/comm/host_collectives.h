// The collectives of a job on several hosts: shared memory inside a host, Gloo between hosts.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/host_map.h"
#include "lockstep/comm/watched_wait.h"

namespace lockstep::comm {

// One at a time, in the same order on all ranks. Tensors are on the CPU and without gaps; what they
// hold after an error is undefined. Each byte leaves a host once, carried by one of its ranks.
class HostCollectives {
 public:
  // `inside`: the ranks of this host; null for the only one. `lane`: one rank of each host; null
  // for a rank without a lane. `size`: all ranks of the job. `waiter` lives as long.
  HostCollectives(HostMap map, int rank, int size, c10::intrusive_ptr<c10d::Backend> inside,
                  c10::intrusive_ptr<c10d::Backend> lane, const WatchedWait& waiter);

  void all_reduce(const at::Tensor& tensor, const c10d::ReduceOp& op, Deadline deadline) const;
  void broadcast(const at::Tensor& tensor, int root, Deadline deadline) const;
  void barrier(Deadline deadline) const;

  // Whether all_reduce() can do it; else it is Gloo's to do, or to refuse.
  [[nodiscard]] static bool reduces(const at::Tensor& tensor, const c10d::ReduceOp& op);

 private:
  using Tensors = std::vector<at::Tensor>;

  // A piece of a tensor on its way to the other hosts; no work where this rank carries nothing.
  struct Carried {
    Tensors shares;
    at::Tensor sent;
    c10::intrusive_ptr<c10d::Work> work;
  };
  [[nodiscard]] const at::Tensor& own(const Tensors& shares) const;
  [[nodiscard]] Tensors shares_of(const at::Tensor& flat) const;
  void sum_inside(const Tensors& shares, const c10d::ReduceOp& op, Deadline deadline) const;
  [[nodiscard]] Carried carry(const Tensors& shares, const c10d::ReduceOp& op,
                              Deadline deadline) const;
  void arrive(const Carried& carried, const c10d::ReduceOp& op) const;
  void gather_inside(const Tensors& shares, Deadline deadline) const;
  void meet_inside(Deadline deadline) const;

  HostMap map_;
  int rank_;
  int size_;
  c10::intrusive_ptr<c10d::Backend> inside_;
  c10::intrusive_ptr<c10d::Backend> lane_;
  const WatchedWait& waiter_;
};

}  // namespace lockstep::comm
