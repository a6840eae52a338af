#include "lockstep/comm/backends/support/cpu_backend.h"

#include "lockstep/comm/backends/support/arguments.h"
#include "lockstep/comm/backends/support/split.h"

namespace lockstep::comm {

CpuBackend::CpuBackend(const BackendRequest& request, const char* name, Takes takes)
    : Backend(request.rank, request.size),
      made_by_(request),
      takes_(takes),
      timeout_(request.timeout) {
  made_by_.store = nullptr;
  if (made_by_.name.empty()) {
    made_by_.name = name;
  }
}

c10::intrusive_ptr<c10d::Backend::Options> CpuBackend::getBackendOptions() {
  return c10::make_intrusive<Options>(getBackendName(), timeout_.load());
}

c10::intrusive_ptr<c10d::Backend> CpuBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const std::vector<int>& ranks,
                                                    const c10::intrusive_ptr<Options>& options) {
  return split_backend(made_by_, store, ranks, options);
}

std::string CpuBackend::what(const std::string& operation) const {
  return operation + " on rank " + std::to_string(getRank()) + " of " + std::to_string(getSize());
}

CpuBackend::Call CpuBackend::begin(Call call) const {
  call.timeout = timeout_or(call.timeout);
  call.what = what(call.operation);
  return call;
}

void CpuBackend::require_taken(const at::Tensor& tensor, const std::string& what) const {
  takes_.gpu_tensors ? require_dense(tensor, what) : require_dense_cpu(tensor, what);
}

WorkPointer CpuBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  Call call = begin({c10d::OpType::ALLREDUCE, "all_reduce", options.timeout, tensors, tensors});
  const at::Tensor& tensor = only(tensors, call.what);
  if (takes_.sparse_tensors && tensor.defined() && tensor.is_sparse()) {
    return allreduce_sparse(tensors, options);
  }
  return check_all_reduce(std::move(call), tensors, options.reduceOp);
}

WorkPointer CpuBackend::allreduce_coalesced(Tensors& tensors,
                                            const c10d::AllreduceCoalescedOptions& options) {
  const auto type =
      tensors.size() == 1 ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED;
  return check_all_reduce(begin({type, "all_reduce", options.timeout, tensors, tensors}), tensors,
                          options.reduceOp);
}

WorkPointer CpuBackend::check_all_reduce(Call call, const Tensors& tensors,
                                         const c10d::ReduceOp& op) {
  for (const auto& tensor : tensors) {
    require_taken(tensor, call.what);
    require_reducible(op, tensor, call.what);
  }
  require_no_overlap({.writes = tensors}, call.what);
  return start_all_reduce(std::move(call), tensors, op);
}

WorkPointer CpuBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (!takes_.sparse_tensors) {
    return Backend::allreduce_sparse(tensors, options);
  }
  Call call = begin({c10d::OpType::_ALLREDUCE_SPARSE, "all_reduce of sparse tensors",
                     options.timeout, tensors, tensors});
  const at::Tensor tensor = only(tensors, call.what);
  if (!tensor.defined() || tensor.layout() != at::kSparse || !tensor.device().is_cpu() ||
      options.reduceOp != c10d::ReduceOp::SUM) {
    throw UsageError(call.what + ": expected a sparse COO tensor on the CPU and the operation sum");
  }
  return start_sparse_all_reduce(std::move(call), tensor);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): backends that sum them keep the call.
WorkPointer CpuBackend::start_sparse_all_reduce(Call call, const at::Tensor& /*tensor*/) {
  throw UsageError(call.what + ": backend '" + getBackendName() + "' sums no sparse tensors");
}

WorkPointer CpuBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  Call call = begin({c10d::OpType::REDUCE, "reduce", options.timeout, tensors, tensors});
  const at::Tensor tensor = only(tensors, call.what);
  require_taken(tensor, call.what);
  require_rank(options.rootRank, getSize(), "root", call.what);
  if (options.rootRank == getRank()) {
    require_separate_elements(tensor, call.what);
  }
  require_reducible(options.reduceOp, tensor, call.what);
  return start_reduce(std::move(call), tensor, options.reduceOp,
                      static_cast<int>(options.rootRank));
}

WorkPointer CpuBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                       const c10d::ReduceScatterOptions& options) {
  const auto shown = inputs.empty() ? std::span<const at::Tensor>() : std::span(inputs[0]);
  Call call =
      begin({c10d::OpType::REDUCE_SCATTER, "reduce_scatter", options.timeout, outputs, shown});
  require_as_many(outputs.size(), inputs.size(), "lists of inputs", call.what);
  Access access{.writes = outputs};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_dense_cpu(outputs[i], call.what);
    require_one_per_rank(inputs[i], getSize(), outputs[i], call.what);
    const auto own = inputs[i][static_cast<std::size_t>(getRank())].numel();
    if (own != outputs[i].numel()) {
      throw UsageError(call.what + ": the output has " + std::to_string(outputs[i].numel()) +
                       " elements, expected " + std::to_string(own) +
                       " as in the input for this rank");
    }
    require_reducible(options.reduceOp, outputs[i], call.what);
    access.read(inputs[i], getRank(), outputs[i]);
  }
  require_no_overlap(access, call.what);
  return start_reduce_scatter(std::move(call), outputs, inputs, options.reduceOp);
}

WorkPointer CpuBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                             const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPointer CpuBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                        const c10d::ReduceScatterOptions& options) {
  const std::string name = what("reduce_scatter");
  TensorLists lists;
  for (const auto& input : inputs) {
    require_dense_cpu(input, name);
    lists.push_back(parts_of(input, getSize(), name));
  }
  return reduce_scatter(outputs, lists, options);
}

WorkPointer CpuBackend::send(Tensors& tensors, int destination, int tag) {
  Call call = begin({c10d::OpType::SEND, "send", c10d::kUnsetTimeout, tensors, tensors});
  const at::Tensor tensor = only(tensors, call.what);
  require_dense_cpu(tensor, call.what);
  require_rank(destination, getSize(), "destination", call.what);
  return start_send(std::move(call), tensor, destination, tag);
}

WorkPointer CpuBackend::recv(Tensors& tensors, int source, int tag) {
  Call call = begin({c10d::OpType::RECV, "recv", c10d::kUnsetTimeout, tensors, tensors});
  require_rank(source, getSize(), "source", call.what);
  return check_receive(std::move(call), tensors, source, tag);
}

WorkPointer CpuBackend::recvAnysource(Tensors& tensors, int tag) {
  return check_receive(
      begin({c10d::OpType::RECVANYSOURCE, "recv", c10d::kUnsetTimeout, tensors, tensors}), tensors,
      std::nullopt, tag);
}

WorkPointer CpuBackend::check_receive(Call call, const Tensors& tensors, std::optional<int> source,
                                      int tag) {
  const at::Tensor tensor = only(tensors, call.what);
  require_dense_cpu(tensor, call.what);
  require_separate_elements(tensor, call.what);
  return start_receive(std::move(call), tensor, source, tag);
}

WorkPointer CpuBackend::barrier(const c10d::BarrierOptions& options) {
  return start_barrier(begin({c10d::OpType::BARRIER, "barrier", options.timeout, {}, {}}));
}

}  // namespace lockstep::comm
