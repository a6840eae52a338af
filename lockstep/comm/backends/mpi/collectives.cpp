// The collectives of the mpi backend.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <numeric>

#include "lockstep/comm/backends/mpi/backend.h"
#include "lockstep/comm/backends/support/overlap.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {
namespace {

// One buffer for the parts of all ranks.
struct Parts {
  at::Tensor flat;
  MpiSplit split;
};

Parts room_for(const std::vector<at::Tensor>& tensors, const at::Tensor& like,
               const std::string& what) {
  const auto counts = element_counts(tensors);
  const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return {at::empty({total}, like.options()), mpi_split(tensors, what)};
}

Parts packed_parts(const std::vector<at::Tensor>& tensors, const std::string& what) {
  const at::Tensor flat = flattened(tensors);
  return {travelling(flat, flat.scalar_type()), mpi_split(tensors, what)};
}

}  // namespace

WorkPointer MpiBackend::start_broadcast(Call call, const at::Tensor& tensor, int root) {
  const at::NoGradGuard no_grad;
  MpiCall mpi_call;
  const auto buffer = travelling(tensor, tensor.scalar_type());
  const int count = mpi_count(buffer.numel(), call.what);
  mpi_call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    return mpi.ibcast(buffer.data_ptr(), count, mpi_unit(mpi, buffer), root, comm, request);
  });
  if (root != getRank()) {
    mpi_call.finish = finish_with({copy_back({buffer}, {tensor})});
  }
  return run(std::move(call), std::move(mpi_call));
}

WorkPointer MpiBackend::start_all_gather(Call call, const TensorLists& outputs,
                                         const Tensors& inputs) {
  const at::NoGradGuard no_grad;
  MpiCall mpi_call;
  std::vector<std::function<void()>> finishes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto given = travelling(inputs[i], inputs[i].scalar_type());
    const auto taken = room_for(outputs[i], given, call.what);
    const int count = mpi_count(given.numel(), call.what);
    mpi_call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
      const auto unit = mpi_unit(mpi, given);
      return mpi.iallgatherv(given.data_ptr(), count, unit, taken.flat.data_ptr(),
                             taken.split.counts.data(), taken.split.offsets.data(), unit, comm,
                             request);
    });
    finishes.emplace_back([flat = taken.flat, list = outputs[i]] { unflatten(flat, list); });
  }
  mpi_call.finish = finish_with(std::move(finishes));
  return run(std::move(call), std::move(mpi_call));
}

WorkPointer MpiBackend::start_all_gather_into(Call call, const Tensors& outputs,
                                              const Tensors& inputs) {
  const at::NoGradGuard no_grad;
  MpiCall mpi_call;
  Tensors results;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // MPI has buffers of its own kind for what is in place; a copy serves it too.
    const auto given = overlap(inputs[i], outputs[i])
                           ? inputs[i].clone(at::MemoryFormat::Contiguous)
                           : travelling(inputs[i], inputs[i].scalar_type());
    const auto result = travelling(outputs[i], outputs[i].scalar_type());
    const auto split = mpi_split(Tensors(static_cast<std::size_t>(getSize()), given), call.what);
    mpi_call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
      const auto unit = mpi_unit(mpi, given);
      return mpi.iallgatherv(given.data_ptr(), split.counts[0], unit, result.data_ptr(),
                             split.counts.data(), split.offsets.data(), unit, comm, request);
    });
    results.push_back(result);
  }
  mpi_call.finish = finish_with({copy_back(results, outputs)});
  return run(std::move(call), std::move(mpi_call));
}

WorkPointer MpiBackend::start_gather(Call call, const Tensors& outputs, const at::Tensor& input,
                                     int root) {
  const at::NoGradGuard no_grad;
  MpiCall mpi_call;
  Parts taken;
  if (root == getRank()) {
    taken = room_for(outputs, input, call.what);
    mpi_call.finish = finish_with({[flat = taken.flat, outputs] { unflatten(flat, outputs); }});
  }
  const auto given = travelling(input, input.scalar_type());
  const int count = mpi_count(given.numel(), call.what);
  mpi_call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    const auto unit = mpi_unit(mpi, given);
    void* room = taken.flat.defined() ? taken.flat.data_ptr() : nullptr;
    return mpi.igatherv(given.data_ptr(), count, unit, room, taken.split.counts.data(),
                        taken.split.offsets.data(), unit, root, comm, request);
  });
  return run(std::move(call), std::move(mpi_call));
}

WorkPointer MpiBackend::start_scatter(Call call, const at::Tensor& output, const Tensors& inputs,
                                      int root) {
  const at::NoGradGuard no_grad;
  MpiCall mpi_call;
  const Parts given = root == getRank() ? packed_parts(inputs, call.what) : Parts{};
  const auto taken = travelling(output, output.scalar_type());
  const int count = mpi_count(taken.numel(), call.what);
  mpi_call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    const auto unit = mpi_unit(mpi, taken);
    const void* parts = given.flat.defined() ? given.flat.data_ptr() : nullptr;
    return mpi.iscatterv(parts, given.split.counts.data(), given.split.offsets.data(), unit,
                         taken.data_ptr(), count, unit, root, comm, request);
  });
  mpi_call.finish = finish_with({copy_back({taken}, {output})});
  return run(std::move(call), std::move(mpi_call));
}

WorkPointer MpiBackend::start_all_to_all(Call call, const Tensors& outputs, const Tensors& inputs) {
  const at::NoGradGuard no_grad;
  MpiCall mpi_call;
  const auto given = packed_parts(inputs, call.what);
  const auto taken = room_for(outputs, given.flat, call.what);
  mpi_call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    const auto unit = mpi_unit(mpi, given.flat);
    return mpi.ialltoallv(given.flat.data_ptr(), given.split.counts.data(),
                          given.split.offsets.data(), unit, taken.flat.data_ptr(),
                          taken.split.counts.data(), taken.split.offsets.data(), unit, comm,
                          request);
  });
  mpi_call.finish = finish_with({[flat = taken.flat, outputs] { unflatten(flat, outputs); }});
  return run(std::move(call), std::move(mpi_call));
}

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
