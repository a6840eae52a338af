// The shared-memory process group as a c10d backend: the ranks of one host.
#pragma once

#include <memory>
#include <optional>

#include "lockstep/comm/backends/shm/work.h"
#include "lockstep/comm/backends/support/cpu_backend.h"
#include "lockstep/comm/placement_allocator.h"
#include "lockstep/comm/progress_board.h"

namespace lockstep::comm {

// One thread at a time may start collectives. They run in the order in which they were started and
// may be waited for in any order; docs/internals/shm.md says which thread runs them.
//
// A call that cannot work throws UsageError. A failure while it runs is a PeerError that names a
// rank. After a PeerError the group is unusable, and the contents of its works' tensors are
// undefined.
class ShmBackend : public CpuBackend, public ProgressBoard {
 public:
  // All ranks call it. Throws UsageError if they are on different hosts, IoError if there is too
  // little memory, PeerError if a rank does not come.
  // `numbers` are the ranks' numbers in errors, if they have other numbers in the job.
  explicit ShmBackend(const BackendRequest& request, std::vector<int> numbers = {});

  // COMM_ERROR once the group is unusable.
  c10d::ErrorType getError() override;
  // The collectives that follow are steps of one with this name, which errors use.
  void be_part_of(const shm::CallName& name) { part_of_ = name; }

  // Leaves the group: waits of other threads end, and the peers are told.
  void shutdown() override;
  void abort() override { shutdown(); }
  // Ends the group on all ranks with an error.
  void break_up(const std::string& reason);

  void report(const Progress& progress) override { group_->team->watch().report(progress); }
  [[nodiscard]] std::optional<Progress> progress_of(int rank) const override {
    return group_->team->watch().progress_of(rank);
  }
  void wait_for(const std::string& what, const std::function<bool()>& is_done,
                Deadline deadline) override;

  // Allocates a tensor that is reduced in place, without a copy, if all ranks use such a tensor.
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  // Lets LibTorch allocate large tensors there; see ArenaSource. It does not keep the group.
  [[nodiscard]] std::shared_ptr<MemorySource> arena_source() const;

  struct MemoryStats {
    shm::Arena::MemoryUse arena;     // This rank's.
    std::uint64_t copied_bytes = 0;  // By all_reduce and reduce, into and out of staging buffers.
  };
  [[nodiscard]] MemoryStats memory_stats() const;

  // Every barrier names the ranks that did not come. This one names them on rank 0, after its own
  // timeout; the others wait for rank 0 at most for the group's timeout.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  WorkPointer start_all_reduce(Call call, const Tensors& tensors,
                               const c10d::ReduceOp& op) override;
  WorkPointer start_sparse_all_reduce(Call call, const at::Tensor& tensor) override;
  WorkPointer start_reduce(Call call, const at::Tensor& tensor, const c10d::ReduceOp& op,
                           int root) override;
  WorkPointer start_reduce_scatter(Call call, const Tensors& outputs, const TensorLists& inputs,
                                   const c10d::ReduceOp& op) override;
  WorkPointer start_broadcast(Call call, const at::Tensor& tensor, int root) override;
  WorkPointer start_all_gather(Call call, const TensorLists& outputs,
                               const Tensors& inputs) override;
  WorkPointer start_all_gather_into(Call call, const Tensors& outputs,
                                    const Tensors& inputs) override;
  WorkPointer start_gather(Call call, const Tensors& outputs, const at::Tensor& input,
                           int root) override;
  WorkPointer start_scatter(Call call, const at::Tensor& output, const Tensors& inputs,
                            int root) override;
  WorkPointer start_all_to_all(Call call, const Tensors& outputs, const Tensors& inputs) override;
  WorkPointer start_barrier(Call call) override;
  // A send is complete when it returns: the message was copied.
  WorkPointer start_send(Call call, const at::Tensor& tensor, int destination, int tag) override;
  WorkPointer start_receive(Call call, const at::Tensor& tensor, std::optional<int> source,
                            int tag) override;

  using Run = std::function<void(shm::Team&, Deadline)>;
  WorkPointer enqueue(Call call, Run run);

  std::optional<shm::CallName> part_of_;
  std::shared_ptr<ShmGroup> group_;
  std::atomic<uint64_t> monitored_barriers_{0};
  bool core_to_spare_;
};

// The sum of sparse tensors, as Gloo makes it: coalesced, with each rank's values in rank order.
at::Tensor shm_sparse_sum(shm::Team& team, const at::Tensor& tensor, Deadline deadline);

}  // namespace lockstep::comm
