// "lockstep" on several hosts as a c10d backend: shared memory inside each host, Gloo between them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "lockstep/base/work_queue.h"
#include "lockstep/comm/backends/hosts/links.h"
#include "lockstep/comm/backends/support/cpu_backend.h"
#include "lockstep/comm/progress_board.h"

namespace lockstep::comm {

// Collectives run in the order in which they were started, one at a time, in a thread of the
// group's own or in one that waits. Two ranks are connected when they first have a message for
// each other.
//
// Errors are UsageError for a call that cannot work, also any call in a fork of the process that
// made the group, and PeerError, naming a rank or a host, for what happens on the way; after a
// PeerError the group is of no use, and the contents of its works' tensors are undefined.
class HostsBackend : public CpuBackend, public ProgressBoard {
 public:
  // All ranks call it. Throws PeerError if a rank does not come.
  HostsBackend(const BackendRequest& request, const HostMap& map, const BackendFactory& gloo);

  void setTimeout(std::chrono::milliseconds timeout) override;
  // COMM_ERROR once the group is of no use.
  c10d::ErrorType getError() override;
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;
  void shutdown() override;
  void abort() override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // Among the ranks of a host.
  void report(const Progress& progress) override;
  [[nodiscard]] std::optional<Progress> progress_of(int rank) const override;
  void wait_for(const std::string& what, const std::function<bool()>& is_done,
                Deadline deadline) override;

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
  WorkPointer start_send(Call call, const at::Tensor& tensor, int destination, int tag) override;
  WorkPointer start_receive(Call call, const at::Tensor& tensor, std::optional<int> source,
                            int tag) override;

  using Run = std::function<void(const HostCollectives&, Deadline)>;
  WorkPointer enqueue(Call call, Run run);

  std::shared_ptr<Shared> shared_;
};

}  // namespace lockstep::comm
