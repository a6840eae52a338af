// The collectives of a job on several hosts: shared memory inside a host, Gloo between hosts, and
// messages where ranks send to ranks.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/backends/hosts/call_check.h"
#include "lockstep/comm/backends/hosts/gloo_wait.h"
#include "lockstep/comm/backends/hosts/messages.h"

namespace lockstep::comm {

// What a rank speaks through.
struct HostParts {
  HostMap map;
  int rank = 0;
  int size = 1;                              // All ranks of the group.
  c10::intrusive_ptr<c10d::Backend> inside;  // This host's; null for the only rank of a host.
  c10::intrusive_ptr<c10d::Backend> lane;    // One of each host; null for one without a lane.
  net::Mailbox* mailbox = nullptr;           // For messages among all ranks.
};

// One at a time, in the same order on all ranks. Tensors are on the CPU and without gaps; what they
// hold after an error is undefined. Throws PeerError, on all ranks of a lane, if hosts call
// different things; else what shared memory and Gloo throw.
class HostCollectives {
 public:
  using Tensors = std::vector<at::Tensor>;

  // `waiter` must outlive this.
  HostCollectives(HostParts parts, const GlooWait& waiter)
      : parts_(std::move(parts)), map_(parts_.map), waiter_(waiter) {}
  HostCollectives(const HostCollectives&) = delete;
  HostCollectives& operator=(const HostCollectives&) = delete;

  // `op` is one that shm_fold() accepts for each tensor. Each byte of a large one leaves a host
  // once, carried by one of its ranks; a small one is carried by all lanes, beside the check
  // that all hosts call the same.
  void all_reduce(const Tensors& tensors, const c10d::ReduceOp& op, Deadline deadline) const;
  void broadcast(const at::Tensor& tensor, int root, Deadline deadline) const;
  void barrier(Deadline deadline) const;

  // outputs[i] has as many bytes as rank i's input.
  void all_gather(const Tensors& outputs, const at::Tensor& input, Deadline deadline) const;
  // Only the root gives outputs, or inputs. Sizes may differ; PeerError if two ranks' do not fit.
  void gather(const Tensors& outputs, const at::Tensor& input, int root, Deadline deadline) const;
  void scatter(const at::Tensor& output, const Tensors& inputs, int root, Deadline deadline) const;
  // inputs[i] goes to rank i, outputs[i] comes from it.
  void all_to_all(const Tensors& outputs, const Tensors& inputs, Deadline deadline) const;
  // The sum of sparse tensors.
  void all_reduce_sparse(const at::Tensor& tensor, Deadline deadline) const;

 private:
  // A piece of a tensor on its way to the other hosts; no work where this rank carries nothing.
  struct Carried {
    Tensors shares;
    at::Tensor sent;
    at::Tensor gathered;  // All hosts' pieces, where Gloo cannot reduce them.
    c10::intrusive_ptr<c10d::Work> work;
  };
  [[nodiscard]] const at::Tensor& own(const Tensors& shares) const;
  [[nodiscard]] Tensors shares_of(const at::Tensor& flat) const;
  [[nodiscard]] CallCheck check_call(const std::string& call, Deadline deadline,
                                     std::span<const std::byte> payload = {}) const {
    return {parts_.lane, call, waiter_, deadline, payload};
  }

  void reduce_beside(const std::string& call, const Tensors& tensors, const c10d::ReduceOp& op,
                     Deadline deadline) const;
  void reduce_in_pieces(const std::string& call, const Tensors& tensors, const c10d::ReduceOp& op,
                        Deadline deadline) const;
  void sum_inside(const Tensors& shares, const c10d::ReduceOp& op, Deadline deadline) const;
  [[nodiscard]] Carried carry(const Tensors& shares, const c10d::ReduceOp& op,
                              Deadline deadline) const;
  void arrive(const Carried& carried, const c10d::ReduceOp& op, Deadline deadline) const;

  void gather_inside(const Tensors& shares, Deadline deadline) const;
  void meet_inside(Deadline deadline) const;
  void broadcast_inside(const at::Tensor& tensor, int local_root, Deadline deadline) const;
  // Gives ranks without a lane what those with one have.
  void tell_the_rest(const Tensors& tensors, Deadline deadline) const;
  void gather_over_lane(const at::Tensor& all, const at::Tensor& mine, Deadline deadline) const;
  // Each rank's row of as many numbers, by rank.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> all_rows(
      const std::vector<std::int64_t>& mine, Deadline deadline) const;
  struct Sizes {
    std::vector<std::vector<std::int64_t>> rows;  // By rank: bytes for each rank, then of each.
    int size;
    [[nodiscard]] std::int64_t given(int from, int to) const {
      return rows[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
    }
    [[nodiscard]] std::int64_t taken(int to, int from) const {
      return rows[static_cast<std::size_t>(to)]
                 [static_cast<std::size_t>(size) + static_cast<std::size_t>(from)];
    }
  };
  void require_fit(const Sizes& sizes) const;
  // inputs[i] goes to rank i, outputs[i] comes from it; what is empty is not sent.
  void exchange(const Tensors& outputs, const Tensors& inputs, Deadline deadline) const;

  // c10d's tags are ints: no message of a user can have these.
  static constexpr std::uint64_t kFirstTag = std::uint64_t{1} << 40;

  HostParts parts_;
  const HostMap& map_;
  const GlooWait& waiter_;
  // All ranks run the same ones in the same order, so they agree on the tag of each.
  mutable std::uint64_t exchanges_ = 0;
};

}  // namespace lockstep::comm
