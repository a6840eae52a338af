// "lockstep" on several hosts as a c10d backend: shared memory inside each host, Gloo between them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "lockstep/base/work_queue.h"
#include "lockstep/comm/backends/hosts/links.h"

namespace lockstep::comm {

// Collectives run in the order in which they were started, one at a time, in a thread of the
// group's own or in one that waits. Two ranks are connected when they first have a message for
// each other.
//
// Errors are UsageError for a call that cannot work, also any call in a fork of the process that
// made the group, and PeerError, naming a rank or a host, for what happens on the way; after a
// PeerError the group is of no use, and the contents of its works' tensors are undefined.
class HostsBackend : public c10d::Backend {
 public:
  // All ranks call it. Throws PeerError if a rank does not come.
  HostsBackend(const BackendRequest& request, const HostMap& map, const BackendFactory& gloo);

  const std::string getBackendName() const override { return "lockstep"; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  uint64_t getSequenceNumberForGroup() override { return started_; }
  void setSequenceNumberForGroup() override {}
  // COMM_ERROR once the group is of no use.
  c10d::ErrorType getError() override;
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;
  void shutdown() override;
  void abort() override;

  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  // Only the root's tensor changes.
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
  WorkPointer send(Tensors& tensors, int destination, int tag) override;
  WorkPointer recv(Tensors& tensors, int source, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  // What the backend and its works share; it ends with the last of them.
  struct Shared {
    Shared(const BackendRequest& request, const HostMap& map, const BackendFactory& gloo)
        : links(request, map, gloo) {}
    ~Shared() {
      if (unfinished > 0) {
        links.leave_at_once();  // Else the queue would wait for ranks that may never come.
      }
    }
    HostLinks links;
    std::atomic<int> unfinished{0};  // Jobs of the queue.
    WorkQueue queue;                 // Last: its thread uses the links.
  };

  using Run = std::function<void(const HostCollectives&, Deadline)>;
  struct Start {
    c10d::OpType type;
    std::chrono::milliseconds timeout;  // kUnsetTimeout: the group's.
    Tensors outputs;
  };
  WorkPointer start(const std::string& operation, Start start, Run run);
  // outputs[i][rank] receives that rank's i-th input.
  WorkPointer gather_lists(Start begin, const TensorLists& outputs, const Tensors& inputs);
  // all_to_all in both forms.
  WorkPointer exchange(Start begin, const Tensors& outputs, const Tensors& inputs);
  WorkPointer receive(const Tensors& tensors, int source, int tag);
  [[nodiscard]] std::string what(const std::string& operation) const;

  BackendRequest made_by_;  // Without its store.
  std::shared_ptr<Shared> shared_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<uint64_t> started_{0};
};

}  // namespace lockstep::comm
