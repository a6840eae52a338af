// The base of our own backends: c10d's calls, checked once and brought to a few operations.
//
// c10d has several forms of most collectives: one tensor, lists, one flat tensor, many of each at
// once. A backend implements the start_...() functions, one for each operation.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "lockstep/comm/backend_registry.h"

namespace lockstep::comm {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

// A call that cannot work throws UsageError before the group is told of it, so it costs the group
// nothing. Tensors may have gaps, be expanded where they are only read, and lie in each other's
// place where the result is the input.
class CpuBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  const std::string getBackendName() const final { return made_by_.name; }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  uint64_t getSequenceNumberForGroup() final { return started_; }
  void setSequenceNumberForGroup() final {}
  c10::intrusive_ptr<Options> getBackendOptions() final;
  bool supportsSplitting() const final { return takes_.splits; }
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) final;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) final;
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) final;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) final;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) final;
  WorkPointer allgather(TensorLists& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) final;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) final;
  WorkPointer allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) final;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) final;
  WorkPointer gather(TensorLists& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) final;
  WorkPointer scatter(Tensors& outputs, TensorLists& inputs,
                      const c10d::ScatterOptions& options) final;
  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) final;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) final;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) final;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                            const c10d::AllToAllOptions& options) final;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) final;
  WorkPointer send(Tensors& tensors, int destination, int tag) final;
  WorkPointer recv(Tensors& tensors, int source, int tag) final;
  WorkPointer recvAnysource(Tensors& tensors, int tag) final;
  WorkPointer barrier(const c10d::BarrierOptions& options) final;

 protected:
  // What a backend can do beyond collectives of dense tensors on the CPU.
  struct Takes {
    bool gpu_tensors = false;  // In all_reduce, reduce, broadcast and all_gather of lists.
    bool sparse_tensors = false;
    bool splits = false;
  };
  // `name` is the backend's if the request has none.
  CpuBackend(const BackendRequest& request, const char* name, Takes takes);

  // A call that was checked and shall start.
  struct Call {
    c10d::OpType type;
    const char* operation;  // "all_reduce"
    std::chrono::milliseconds timeout;
    Tensors outputs;                     // The result of the work.
    std::span<const at::Tensor> inputs;  // For the profiler; gone when start_...() has returned.
    std::string what = {};               // How errors begin.
  };

  // Each tensor is reduced over the ranks; `op` is defined for its dtype.
  virtual WorkPointer start_all_reduce(Call call, const Tensors& tensors,
                                       const c10d::ReduceOp& op) = 0;
  // The sum of tensors in COO layout; only called if sparse tensors are taken.
  virtual WorkPointer start_sparse_all_reduce(Call call, const at::Tensor& tensor);
  // Only the root's tensor changes.
  virtual WorkPointer start_reduce(Call call, const at::Tensor& tensor, const c10d::ReduceOp& op,
                                   int root) = 0;
  // inputs[i] has a tensor for each rank; outputs[i] gets the sum of those for this rank.
  virtual WorkPointer start_reduce_scatter(Call call, const Tensors& outputs,
                                           const TensorLists& inputs, const c10d::ReduceOp& op) = 0;
  virtual WorkPointer start_broadcast(Call call, const at::Tensor& tensor, int root) = 0;
  // outputs[i][rank] receives that rank's i-th input. Ranks may have tensors of different sizes.
  virtual WorkPointer start_all_gather(Call call, const TensorLists& outputs,
                                       const Tensors& inputs) = 0;
  // outputs[i] receives all ranks' i-th inputs, one after the other.
  virtual WorkPointer start_all_gather_into(Call call, const Tensors& outputs,
                                            const Tensors& inputs) = 0;
  // Only the root has outputs, one for each rank.
  virtual WorkPointer start_gather(Call call, const Tensors& outputs, const at::Tensor& input,
                                   int root) = 0;
  // Only the root has inputs, one for each rank.
  virtual WorkPointer start_scatter(Call call, const at::Tensor& output, const Tensors& inputs,
                                    int root) = 0;
  // inputs[i] goes to rank i, outputs[i] comes from it.
  virtual WorkPointer start_all_to_all(Call call, const Tensors& outputs,
                                       const Tensors& inputs) = 0;
  virtual WorkPointer start_barrier(Call call) = 0;
  virtual WorkPointer start_send(Call call, const at::Tensor& tensor, int destination, int tag) = 0;
  // Without a source, from any rank.
  virtual WorkPointer start_receive(Call call, const at::Tensor& tensor, std::optional<int> source,
                                    int tag) = 0;

  // "all_reduce on rank 1 of 4".
  [[nodiscard]] std::string what(const std::string& operation) const;
  // The group's timeout if there is none.
  [[nodiscard]] std::chrono::milliseconds timeout_or(std::chrono::milliseconds timeout) const {
    return timeout == c10d::kUnsetTimeout ? timeout_.load() : timeout;
  }
  // Counts a collective: its number, from 1.
  std::uint64_t next_number() { return ++started_; }

 private:
  // With its timeout, and how its errors begin.
  [[nodiscard]] Call begin(Call call) const;
  WorkPointer check_all_reduce(Call call, const Tensors& tensors, const c10d::ReduceOp& op);
  WorkPointer check_all_gather(Call call, const TensorLists& outputs, const Tensors& inputs);
  WorkPointer check_all_to_all(Call call, const Tensors& outputs, const Tensors& inputs);
  WorkPointer check_receive(Call call, const Tensors& tensors, std::optional<int> source, int tag);
  void require_taken(const at::Tensor& tensor, const std::string& what) const;

  BackendRequest made_by_;  // Without its store.
  Takes takes_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<uint64_t> started_{0};
};

}  // namespace lockstep::comm
