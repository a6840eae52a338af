#include "lockstep/comm/backends/local/backend.h"

#include "lockstep/comm/backends/support/arguments.h"
#include "lockstep/comm/backends/support/finished_work.h"

namespace lockstep::comm {
namespace {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

WorkPointer finished(std::vector<at::Tensor> result = {}) {
  return c10::make_intrusive<FinishedWork>(std::move(result));
}

std::string name_of(const char* operation) { return std::string(operation) + " on rank 0 of 1"; }

// The result is already in place: it is the input.
WorkPointer kept(const std::vector<at::Tensor>& tensors, const char* operation) {
  require_no_overlap({.writes = tensors}, name_of(operation));
  return finished(tensors);
}

WorkPointer copied(const at::Tensor& to, const at::Tensor& from, const char* operation) {
  Access access{.writes = {to}};
  access.read(from, to);
  require_no_overlap(access, name_of(operation));
  to.view_as(from).copy_(from);
  return finished({to});
}

}  // namespace

WorkPointer LocalBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions&) {
  return finished(tensors);
}

WorkPointer LocalBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions&) {
  return kept(tensors, "allreduce");
}

WorkPointer LocalBackend::allreduce_coalesced(Tensors& tensors,
                                              const c10d::AllreduceCoalescedOptions&) {
  return kept(tensors, "allreduce");
}

WorkPointer LocalBackend::reduce(Tensors& tensors, const c10d::ReduceOptions&) {
  return kept(tensors, "reduce");
}

WorkPointer LocalBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions&) {
  return copied(outputs.at(0).at(0), inputs.at(0), "allgather");
}

WorkPointer LocalBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions&) {
  return copied(output, input, "allgather_into_tensor");
}

WorkPointer LocalBackend::gather(TensorLists& outputs, Tensors& inputs,
                                 const c10d::GatherOptions&) {
  return copied(outputs.at(0).at(0), inputs.at(0), "gather");
}

WorkPointer LocalBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                  const c10d::ScatterOptions&) {
  return copied(outputs.at(0), inputs.at(0).at(0), "scatter");
}

WorkPointer LocalBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                         const c10d::ReduceScatterOptions&) {
  return copied(outputs.at(0), inputs.at(0).at(0), "reduce_scatter");
}

WorkPointer LocalBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions&) {
  return copied(output, input, "reduce_scatter_tensor");
}

WorkPointer LocalBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                        std::vector<int64_t>&, std::vector<int64_t>&,
                                        const c10d::AllToAllOptions&) {
  return copied(output, input, "all_to_all");
}

WorkPointer LocalBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                   const c10d::AllToAllOptions&) {
  return copied(outputs.at(0), inputs.at(0), "all_to_all");
}

WorkPointer LocalBackend::barrier(const c10d::BarrierOptions&) { return finished(); }

}  // namespace lockstep::comm
