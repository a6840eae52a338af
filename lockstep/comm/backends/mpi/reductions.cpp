// The collectives of the mpi backend that compute.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/mpi/backend.h"
#include "lockstep/comm/backends/support/arguments.h"
#include "lockstep/comm/backends/support/tensor_bytes.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {
namespace {

using Finish = std::function<void()>;

// Null where no part has anything left to do.
std::function<void(const MPI_Status&)> all_of(std::vector<Finish> parts) {
  std::erase(parts, nullptr);
  if (parts.empty()) {
    return nullptr;
  }
  return [parts](const MPI_Status&) {
    for (const auto& part : parts) {
      part();
    }
  };
}

void require_size(const at::Tensor& output, std::int64_t elements, const std::string& what) {
  if (output.numel() != elements) {
    throw UsageError(what + ": the output has " + std::to_string(output.numel()) +
                     " elements, expected " + std::to_string(elements) +
                     " as in the input for this rank");
  }
}

}  // namespace

Finish MpiBackend::put_in_place(const at::Tensor& buffer, const at::Tensor& tensor,
                                const MpiReduction& how) const {
  Finish back = copy_back({buffer}, {tensor});
  if (!how.average) {
    return back;
  }
  return [buffer, back, ranks = getSize()] {
    divide_in_place(buffer, ranks);
    if (back) {
      back();
    }
  };
}

MpiBackend::WorkPointer MpiBackend::allreduce(Tensors& tensors,
                                              const c10d::AllreduceOptions& options) {
  only(tensors, what("all_reduce"));
  c10d::AllreduceCoalescedOptions same;
  same.reduceOp = options.reduceOp;
  same.timeout = options.timeout;
  return allreduce_coalesced(tensors, same);
}

MpiBackend::WorkPointer MpiBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const at::NoGradGuard no_grad;
  MpiCall call{.what = what("all_reduce")};
  std::vector<Finish> finishes;
  for (const auto& tensor : tensors) {
    require_dense_cpu(tensor, call.what);
  }
  require_no_overlap({.writes = tensors}, call.what);
  for (const auto& tensor : tensors) {
    const auto how = mpi_reduction(process_.mpi(), options.reduceOp, tensor, call.what);
    const auto buffer = travelling(tensor, how.travels_as);
    const int count = mpi_count(buffer.numel(), call.what);
    call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
      return mpi.iallreduce(MPI_IN_PLACE, buffer.data_ptr(), count, how.type, how.op, comm,
                            request);
    });
    finishes.push_back(put_in_place(buffer, tensor, how));
  }
  call.finish = all_of(std::move(finishes));
  const auto type =
      tensors.size() == 1 ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED;
  return start({type, options.timeout, tensors}, std::move(call));
}

MpiBackend::WorkPointer MpiBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::NoGradGuard no_grad;
  MpiCall call{.what = what("reduce")};
  const at::Tensor tensor = only(tensors, call.what);
  require_dense_cpu(tensor, call.what);
  require_rank(options.rootRank, getSize(), "root", call.what);
  const auto how = mpi_reduction(process_.mpi(), options.reduceOp, tensor, call.what);
  const auto buffer = travelling(tensor, how.travels_as);
  const int count = mpi_count(buffer.numel(), call.what);
  const int root = static_cast<int>(options.rootRank);
  const bool is_root = root == getRank();
  if (is_root) {
    require_separate_elements(tensor, call.what);
  }
  call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    const void* given = is_root ? MPI_IN_PLACE : buffer.data_ptr();
    void* result = is_root ? buffer.data_ptr() : nullptr;
    return mpi.ireduce(given, result, count, how.type, how.op, root, comm, request);
  });
  if (is_root) {
    call.finish = all_of({put_in_place(buffer, tensor, how)});
  }
  return start({c10d::OpType::REDUCE, options.timeout, {tensor}}, std::move(call));
}

MpiBackend::WorkPointer MpiBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                   const c10d::ReduceScatterOptions& options) {
  const at::NoGradGuard no_grad;
  MpiCall call{.what = what("reduce_scatter")};
  if (outputs.size() != inputs.size()) {
    throw UsageError(call.what + ": there are " + std::to_string(outputs.size()) + " outputs for " +
                     std::to_string(inputs.size()) + " lists of inputs");
  }
  std::vector<Finish> finishes;
  Access access{.writes = outputs};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_dense_cpu(outputs[i], call.what);
    require_one_per_rank(inputs[i], getSize(), outputs[i], call.what);
    access.read(inputs[i], getRank(), outputs[i]);
    require_size(outputs[i], inputs[i][static_cast<std::size_t>(getRank())].numel(), call.what);
    const auto how = mpi_reduction(process_.mpi(), options.reduceOp, outputs[i], call.what);
    const auto given = travelling(flattened(inputs[i]), how.travels_as);
    const auto result = travelling(outputs[i], how.travels_as);
    const auto split = mpi_split(inputs[i], call.what);
    call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
      return mpi.ireduce_scatter(given.data_ptr(), result.data_ptr(), split.counts.data(), how.type,
                                 how.op, comm, request);
    });
    finishes.push_back(put_in_place(result, outputs[i], how));
  }
  require_no_overlap(access, call.what);
  call.finish = all_of(std::move(finishes));
  return start({c10d::OpType::REDUCE_SCATTER, options.timeout, outputs}, std::move(call));
}

MpiBackend::WorkPointer MpiBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

MpiBackend::WorkPointer MpiBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  const std::string name = what("reduce_scatter");
  TensorLists lists;
  for (const auto& input : inputs) {
    require_dense_cpu(input, name);
    lists.push_back(parts_of(input, getSize(), name));
  }
  return reduce_scatter(outputs, lists, options);
}

}  // namespace lockstep::comm
