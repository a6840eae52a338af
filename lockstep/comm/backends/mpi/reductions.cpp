// The collectives of the mpi backend that compute.
#include <ATen/core/grad_mode.h>

#include "lockstep/comm/backends/mpi/backend.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {

std::function<void()> MpiBackend::put_in_place(const at::Tensor& buffer, const at::Tensor& tensor,
                                               const MpiReduction& how) const {
  auto back = copy_back({buffer}, {tensor});
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

WorkPointer MpiBackend::start_all_reduce(Call call, const Tensors& tensors,
                                         const c10d::ReduceOp& op) {
  const at::NoGradGuard no_grad;
  MpiCall mpi_call;
  std::vector<std::function<void()>> finishes;
  for (const auto& tensor : tensors) {
    const auto how = mpi_reduction(process_.mpi(), op, tensor, call.what);
    const auto buffer = travelling(tensor, how.travels_as);
    const int count = mpi_count(buffer.numel(), call.what);
    mpi_call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
      return mpi.iallreduce(MPI_IN_PLACE, buffer.data_ptr(), count, how.type, how.op, comm,
                            request);
    });
    finishes.push_back(put_in_place(buffer, tensor, how));
  }
  mpi_call.finish = finish_with(std::move(finishes));
  return run(std::move(call), std::move(mpi_call));
}

WorkPointer MpiBackend::start_reduce(Call call, const at::Tensor& tensor, const c10d::ReduceOp& op,
                                     int root) {
  const at::NoGradGuard no_grad;
  MpiCall mpi_call;
  const auto how = mpi_reduction(process_.mpi(), op, tensor, call.what);
  const auto buffer = travelling(tensor, how.travels_as);
  const int count = mpi_count(buffer.numel(), call.what);
  const bool is_root = root == getRank();
  mpi_call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    const void* given = is_root ? MPI_IN_PLACE : buffer.data_ptr();
    void* result = is_root ? buffer.data_ptr() : nullptr;
    return mpi.ireduce(given, result, count, how.type, how.op, root, comm, request);
  });
  if (is_root) {
    mpi_call.finish = finish_with({put_in_place(buffer, tensor, how)});
  }
  return run(std::move(call), std::move(mpi_call));
}

WorkPointer MpiBackend::start_reduce_scatter(Call call, const Tensors& outputs,
                                             const TensorLists& inputs, const c10d::ReduceOp& op) {
  const at::NoGradGuard no_grad;
  MpiCall mpi_call;
  std::vector<std::function<void()>> finishes;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto how = mpi_reduction(process_.mpi(), op, outputs[i], call.what);
    const auto given = travelling(flattened(inputs[i]), how.travels_as);
    const auto result = travelling(outputs[i], how.travels_as);
    const auto split = mpi_split(inputs[i], call.what);
    mpi_call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
      return mpi.ireduce_scatter(given.data_ptr(), result.data_ptr(), split.counts.data(), how.type,
                                 how.op, comm, request);
    });
    finishes.push_back(put_in_place(result, outputs[i], how));
  }
  mpi_call.finish = finish_with(std::move(finishes));
  return run(std::move(call), std::move(mpi_call));
}

}  // namespace lockstep::comm
