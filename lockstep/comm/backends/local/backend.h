// The backend of a process that is alone: every collective is a copy, no socket is opened.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace lockstep::comm {

// Works are complete when they are returned. Sending to oneself throws.
// Not a CpuBackend: tensors may be on any device and of any dtype and layout, so of its checks only
// that for overlap would be left.
class LocalBackend : public c10d::Backend {
 public:
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  LocalBackend() : Backend(/*rank=*/0, /*size=*/1) {}

  const std::string getBackendName() const override { return "local"; }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(TensorLists& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer gather(TensorLists& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, TensorLists& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                            const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;
};

}  // namespace lockstep::comm
