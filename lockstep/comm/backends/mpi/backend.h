// Open MPI as a c10d backend, for ranks that mpirun started; private to comm.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/comm/backend_registry.h"
#include "lockstep/comm/backends/mpi/process.h"
#include "lockstep/comm/backends/mpi/types.h"

namespace lockstep::comm {

// One thread at a time may start collectives. They run at once, in the order in which they were
// started, and may be waited for in any order.
//
// A call that cannot work throws UsageError. A failure while it runs is a PeerError that names the
// operation and the rank. After a PeerError of a collective the group is unusable, and the contents
// of its works' tensors are undefined.
class MpiBackend : public c10d::Backend {
 public:
  // All ranks call it; they find each other's ranks in MPI_COMM_WORLD through the store. Throws
  // UsageError if mpirun started fewer processes than the group has ranks.
  explicit MpiBackend(const BackendRequest& request);

  const std::string getBackendName() const override { return "mpi"; }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  uint64_t getSequenceNumberForGroup() override { return started_; }
  void setSequenceNumberForGroup() override {}

  // Operations under way go on; the communicator ends with the last of them.
  void shutdown() override {}
  // Operations under way end with PeerError.
  void abort() override;

  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
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
  WorkPointer send(Tensors& tensors, int destination, int tag) override;
  WorkPointer recv(Tensors& tensors, int source, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  struct Start {
    c10d::OpType type;
    std::chrono::milliseconds timeout;  // kUnsetTimeout: the group's.
    Tensors outputs;
  };
  WorkPointer start(Start start, MpiCall call);
  // outputs[i][rank] receives that rank's i-th input.
  WorkPointer gather_lists(Start begin, const TensorLists& outputs, const Tensors& inputs);
  WorkPointer receive(c10d::OpType type, const at::Tensor& tensor, int source, int tag);
  // The call that is about to start: "all_reduce #12 on rank 1 of 4".
  [[nodiscard]] std::string what(const char* operation) const;
  // What is left to do with a reduced buffer; null if nothing is.
  [[nodiscard]] std::function<void()> put_in_place(const at::Tensor& buffer,
                                                   const at::Tensor& tensor,
                                                   const MpiReduction& how) const;

  MpiProcess& process_;
  std::shared_ptr<MpiGroup> group_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<uint64_t> started_{0};
};

}  // namespace lockstep::comm
