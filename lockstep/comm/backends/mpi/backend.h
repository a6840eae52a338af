// Open MPI as a c10d backend, for ranks that mpirun started; private to comm.
#pragma once

#include "lockstep/comm/backends/mpi/process.h"
#include "lockstep/comm/backends/mpi/types.h"
#include "lockstep/comm/backends/support/cpu_backend.h"

namespace lockstep::comm {

// One thread at a time may start collectives. They run at once, in the order in which they were
// started, and may be waited for in any order.
//
// A call that cannot work throws UsageError, also any call in a fork of the process that made the
// group; there shutdown(), abort() and the destructor do nothing. A failure while it runs is a
// PeerError that names the operation and the rank. After a PeerError of a collective the group is
// unusable, and the contents of its works' tensors are undefined.
class MpiBackend : public CpuBackend {
 public:
  // All ranks call it; they find each other's ranks in MPI_COMM_WORLD through the store. Throws
  // UsageError if mpirun started fewer processes than the group has ranks.
  explicit MpiBackend(const BackendRequest& request);

  // Operations under way go on; the communicator ends with the last of them.
  void shutdown() override {}
  // Operations under way end with PeerError.
  void abort() override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  WorkPointer start_all_reduce(Call call, const Tensors& tensors,
                               const c10d::ReduceOp& op) override;
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

  // Counts it, unless it is a message.
  WorkPointer run(Call call, MpiCall mpi_call);
  // What is left to do with a reduced buffer; null if nothing is.
  [[nodiscard]] std::function<void()> put_in_place(const at::Tensor& buffer,
                                                   const at::Tensor& tensor,
                                                   const MpiReduction& how) const;

  MpiProcess& process_;
  std::shared_ptr<MpiGroup> group_;
};

}  // namespace lockstep::comm
