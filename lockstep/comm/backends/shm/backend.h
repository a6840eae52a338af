// The shared-memory process group as a c10d backend: the ranks of one host.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/comm/backend_registry.h"
#include "lockstep/comm/backends/shm/work.h"
#include "lockstep/comm/progress_board.h"

namespace lockstep::comm {

// One thread at a time may start collectives. They run in the order in which they were started and
// may be waited for in any order; docs/internals/shm.md says which thread runs them.
//
// A call that cannot work throws UsageError. A failure while it runs is a PeerError that names a
// rank. After a PeerError the group is unusable, and the contents of its works' tensors are
// undefined.
class ShmBackend : public c10d::Backend, public ProgressBoard {
 public:
  // All ranks call it. Throws UsageError if they are on different hosts, IoError if there is too
  // little memory, PeerError if a rank does not come.
  // `numbers` are the ranks' numbers in errors, if they have other numbers in the job.
  explicit ShmBackend(const BackendRequest& request, std::vector<int> numbers = {});

  const std::string getBackendName() const override {
    return made_by_.name.empty() ? "shm" : made_by_.name;
  }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  uint64_t getSequenceNumberForGroup() override { return started_; }
  void setSequenceNumberForGroup() override {}
  // COMM_ERROR once the group is unusable.
  c10d::ErrorType getError() override;
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;
  // The collectives that follow are steps of one with this name, which errors use.
  void be_part_of(const shm::CallName& name) { part_of_ = name; }

  // Leaves the group: waits of other threads end, and the peers are told.
  void shutdown() override;
  void abort() override { shutdown(); }
  // Ends the group on all ranks with an error.
  void break_up(const std::string& reason);

  void report(const Progress& progress) override { group_->team->watch().report(progress); }
  [[nodiscard]] Progress progress_of(int rank) const override {
    return group_->team->watch().progress_of(rank);
  }

  // Allocates a tensor that is reduced in place, without a copy, if all ranks use such a tensor.
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(TensorLists& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPointer gather(TensorLists& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, TensorLists& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                            const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  // A send is complete when it returns: the message was copied.
  WorkPointer send(Tensors& tensors, int destination, int tag) override;
  WorkPointer recv(Tensors& tensors, int source, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;
  // Every barrier names the ranks that did not come. This one names them on rank 0, after its own
  // timeout; the others wait for rank 0 at most for the group's timeout.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  using Run = std::function<void(shm::Team&, Deadline)>;
  struct Start {
    c10d::OpType type;
    std::chrono::milliseconds timeout;  // kUnsetTimeout: the group's.
    Tensors outputs;
    std::span<const at::Tensor> inputs;  // For the profiler; looked at before start() returns.
  };
  WorkPointer start(Start start, Run run);
  // outputs[i][rank] receives that rank's i-th input.
  WorkPointer gather_lists(Start begin, const TensorLists& outputs, const Tensors& inputs);
  // all_to_all in both forms.
  WorkPointer exchange(Start begin, const Tensors& outputs, const Tensors& inputs);
  [[nodiscard]] std::string what(const char* operation) const;

  BackendRequest made_by_;  // Without its store.
  std::optional<shm::CallName> part_of_;
  std::shared_ptr<ShmGroup> group_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<uint64_t> started_{0};
  std::atomic<uint64_t> monitored_barriers_{0};
  bool core_to_spare_;
};

// The sum of sparse tensors, as Gloo makes it: coalesced, with each rank's values in rank order.
at::Tensor shm_sparse_sum(shm::Team& team, const at::Tensor& tensor, Deadline deadline);

}  // namespace lockstep::comm
