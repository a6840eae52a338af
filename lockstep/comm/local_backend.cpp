#include "lockstep/comm/local_backend.h"

#include "lockstep/comm/finished_work.h"

namespace lockstep::comm {
namespace {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

WorkPointer finished(std::vector<at::Tensor> result = {}) {
  return c10::make_intrusive<FinishedWork>(std::move(result));
}

WorkPointer copied(const at::Tensor& to, const at::Tensor& from) {
  to.view_as(from).copy_(from);
  return finished({to});
}

}  // namespace

WorkPointer LocalBackend::broadcast(std::vector<at::Tensor>& tensors,
                                    const c10d::BroadcastOptions&) {
  return finished(tensors);
}

WorkPointer LocalBackend::allreduce(std::vector<at::Tensor>& tensors,
                                    const c10d::AllreduceOptions&) {
  return finished(tensors);
}

WorkPointer LocalBackend::allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                              const c10d::AllreduceCoalescedOptions&) {
  return finished(tensors);
}

WorkPointer LocalBackend::reduce(std::vector<at::Tensor>& tensors, const c10d::ReduceOptions&) {
  return finished(tensors);
}

WorkPointer LocalBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                    std::vector<at::Tensor>& inputs,
                                    const c10d::AllgatherOptions&) {
  return copied(outputs.at(0).at(0), inputs.at(0));
}

WorkPointer LocalBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions&) {
  return copied(output, input);
}

WorkPointer LocalBackend::gather(std::vector<std::vector<at::Tensor>>& outputs,
                                 std::vector<at::Tensor>& inputs, const c10d::GatherOptions&) {
  return copied(outputs.at(0).at(0), inputs.at(0));
}

WorkPointer LocalBackend::scatter(std::vector<at::Tensor>& outputs,
                                  std::vector<std::vector<at::Tensor>>& inputs,
                                  const c10d::ScatterOptions&) {
  return copied(outputs.at(0), inputs.at(0).at(0));
}

WorkPointer LocalBackend::reduce_scatter(std::vector<at::Tensor>& outputs,
                                         std::vector<std::vector<at::Tensor>>& inputs,
                                         const c10d::ReduceScatterOptions&) {
  return copied(outputs.at(0), inputs.at(0).at(0));
}

WorkPointer LocalBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions&) {
  return copied(output, input);
}

WorkPointer LocalBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                        std::vector<int64_t>&, std::vector<int64_t>&,
                                        const c10d::AllToAllOptions&) {
  return copied(output, input);
}

WorkPointer LocalBackend::alltoall(std::vector<at::Tensor>& outputs,
                                   std::vector<at::Tensor>& inputs, const c10d::AllToAllOptions&) {
  return copied(outputs.at(0), inputs.at(0));
}

WorkPointer LocalBackend::barrier(const c10d::BarrierOptions&) { return finished(); }

}  // namespace lockstep::comm
