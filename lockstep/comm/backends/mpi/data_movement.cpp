// The collectives of the mpi backend that move tensors and compute nothing.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/mpi/backend.h"
#include "lockstep/comm/backends/support/arguments.h"
#include "lockstep/comm/backends/support/overlap.h"
#include "lockstep/comm/backends/support/tensor_bytes.h"
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

void require_same_size(const at::Tensor& input, const at::Tensor& output, const std::string& what) {
  if (input.numel() != output.numel()) {
    throw UsageError(what + ": the input has " + std::to_string(input.numel()) +
                     " elements, expected " + std::to_string(output.numel()) +
                     " as in this rank's part of the output");
  }
}

}  // namespace

MpiBackend::WorkPointer MpiBackend::broadcast(Tensors& tensors,
                                              const c10d::BroadcastOptions& options) {
  const at::NoGradGuard no_grad;
  MpiCall call{.what = what("broadcast")};
  const at::Tensor tensor = only(tensors, call.what);
  require_dense_cpu(tensor, call.what);
  require_rank(options.rootRank, getSize(), "root", call.what);
  const auto buffer = travelling(tensor, tensor.scalar_type());
  const int count = mpi_count(buffer.numel(), call.what);
  const int root = static_cast<int>(options.rootRank);
  if (root != getRank()) {
    require_separate_elements(tensor, call.what);
  }
  call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    return mpi.ibcast(buffer.data_ptr(), count, mpi_unit(mpi, buffer), root, comm, request);
  });
  if (root != getRank() && !buffer.is_same(tensor)) {
    call.finish = [buffer, tensor](const MPI_Status&) { tensor.copy_(buffer); };
  }
  return start({c10d::OpType::BROADCAST, options.timeout, {tensor}}, std::move(call));
}

MpiBackend::WorkPointer MpiBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  only(inputs, what("all_gather"));
  const Tensors results = only(outputs, what("all_gather"));
  return gather_lists({c10d::OpType::ALLGATHER, options.timeout, results}, outputs, inputs);
}

// outputs[rank][i] receives that rank's i-th input.
MpiBackend::WorkPointer MpiBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& options) {
  Tensors all;
  TensorLists by_input(inputs.size());
  for (const auto& list : outputs) {
    if (list.size() != inputs.size()) {
      throw UsageError(what("all_gather") + ": a rank has " + std::to_string(list.size()) +
                       " outputs, expected as many as there are inputs, " +
                       std::to_string(inputs.size()));
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      by_input[i].push_back(list[i]);
      all.push_back(list[i]);
    }
  }
  return gather_lists({c10d::OpType::ALLGATHER_COALESCED, options.timeout, std::move(all)},
                      by_input, inputs);
}

MpiBackend::WorkPointer MpiBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

MpiBackend::WorkPointer MpiBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const std::string name = what("all_gather");
  require_as_many(outputs, inputs, name);
  for (const auto& output : outputs) {
    require_dense_cpu(output, name);
  }
  const at::NoGradGuard no_grad;
  MpiCall call{.what = name};
  Tensors results;
  Access access;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_dense_cpu(inputs[i], name);
    access.gather(outputs[i], inputs[i], getRank());
    // MPI has buffers of its own kind for what is in place; a copy serves it too.
    const auto given = overlap(inputs[i], outputs[i])
                           ? inputs[i].clone(at::MemoryFormat::Contiguous)
                           : travelling(inputs[i], inputs[i].scalar_type());
    const auto result = travelling(outputs[i], outputs[i].scalar_type());
    const auto parts = parts_of(result, getSize(), name);
    require_one_per_rank(parts, getSize(), given, name);
    require_same_size(given, parts[0], name);
    call.begins.push_back([given, result, split = mpi_split(parts, name)](
                              const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
      const auto unit = mpi_unit(mpi, given);
      return mpi.iallgatherv(given.data_ptr(), split.counts[0], unit, result.data_ptr(),
                             split.counts.data(), split.offsets.data(), unit, comm, request);
    });
    results.push_back(result);
  }
  require_no_overlap(access, name);
  if (const auto back = copy_back(results, outputs)) {
    call.finish = [back](const MPI_Status&) { back(); };
  }
  return start({c10d::OpType::_ALLGATHER_BASE, options.timeout, outputs}, std::move(call));
}

MpiBackend::WorkPointer MpiBackend::gather_lists(Start begin, const TensorLists& outputs,
                                                 const Tensors& inputs) {
  const at::NoGradGuard no_grad;
  MpiCall call{.what = what("all_gather")};
  std::vector<std::function<void()>> finishes;
  Access access;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_dense_cpu(inputs[i], call.what);
    require_one_per_rank(outputs[i], getSize(), inputs[i], call.what);
    require_same_size(inputs[i], outputs[i][static_cast<std::size_t>(getRank())], call.what);
    access.writes.insert(access.writes.end(), outputs[i].begin(), outputs[i].end());
    access.read(inputs[i], outputs[i][static_cast<std::size_t>(getRank())]);
    const auto given = travelling(inputs[i], inputs[i].scalar_type());
    const auto taken = room_for(outputs[i], given, call.what);
    const int count = mpi_count(given.numel(), call.what);
    call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
      const auto unit = mpi_unit(mpi, given);
      return mpi.iallgatherv(given.data_ptr(), count, unit, taken.flat.data_ptr(),
                             taken.split.counts.data(), taken.split.offsets.data(), unit, comm,
                             request);
    });
    finishes.push_back([flat = taken.flat, list = outputs[i]] { unflatten(flat, list); });
  }
  require_no_overlap(access, call.what);
  call.finish = [finishes](const MPI_Status&) {
    for (const auto& finish : finishes) {
      finish();
    }
  };
  return start(std::move(begin), std::move(call));
}

MpiBackend::WorkPointer MpiBackend::gather(TensorLists& outputs, Tensors& inputs,
                                           const c10d::GatherOptions& options) {
  const at::NoGradGuard no_grad;
  MpiCall call{.what = what("gather")};
  const at::Tensor input = only(inputs, call.what);
  require_dense_cpu(input, call.what);
  require_rank(options.rootRank, getSize(), "root", call.what);
  const int root = static_cast<int>(options.rootRank);
  Parts taken;
  Tensors results;
  if (root == getRank()) {
    results = only(outputs, call.what);
    require_one_per_rank(results, getSize(), input, call.what);
    Access access{.writes = results};
    access.read(input, results[static_cast<std::size_t>(getRank())]);
    require_no_overlap(access, call.what);
    taken = room_for(results, input, call.what);
    call.finish = [flat = taken.flat, results](const MPI_Status&) { unflatten(flat, results); };
  } else if (!outputs.empty()) {
    throw UsageError(call.what + ": there are outputs, but only the root gives any");
  }
  const auto given = travelling(input, input.scalar_type());
  const int count = mpi_count(given.numel(), call.what);
  call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    const auto unit = mpi_unit(mpi, given);
    void* room = taken.flat.defined() ? taken.flat.data_ptr() : nullptr;
    return mpi.igatherv(given.data_ptr(), count, unit, room, taken.split.counts.data(),
                        taken.split.offsets.data(), unit, root, comm, request);
  });
  return start({c10d::OpType::GATHER, options.timeout, std::move(results)}, std::move(call));
}

MpiBackend::WorkPointer MpiBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                            const c10d::ScatterOptions& options) {
  const at::NoGradGuard no_grad;
  MpiCall call{.what = what("scatter")};
  const at::Tensor output = only(outputs, call.what);
  require_dense_cpu(output, call.what);
  require_rank(options.rootRank, getSize(), "root", call.what);
  const int root = static_cast<int>(options.rootRank);
  Parts given;
  Access access{.writes = {output}};
  if (root == getRank()) {
    const Tensors& parts = only(inputs, call.what);
    require_one_per_rank(parts, getSize(), output, call.what);
    access.read(parts, getRank(), output);
    given = packed_parts(parts, call.what);
  } else if (!inputs.empty()) {
    throw UsageError(call.what + ": there are inputs, but only the root gives any");
  }
  require_no_overlap(access, call.what);
  const auto taken = travelling(output, output.scalar_type());
  const int count = mpi_count(taken.numel(), call.what);
  call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    const auto unit = mpi_unit(mpi, taken);
    const void* parts = given.flat.defined() ? given.flat.data_ptr() : nullptr;
    return mpi.iscatterv(parts, given.split.counts.data(), given.split.offsets.data(), unit,
                         taken.data_ptr(), count, unit, root, comm, request);
  });
  if (!taken.is_same(output)) {
    call.finish = [taken, output](const MPI_Status&) { output.copy_(taken); };
  }
  return start({c10d::OpType::SCATTER, options.timeout, {output}}, std::move(call));
}

MpiBackend::WorkPointer MpiBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<int64_t>& output_sizes,
                                                  std::vector<int64_t>& input_sizes,
                                                  const c10d::AllToAllOptions& options) {
  const std::string name = what("all_to_all");
  require_dense_cpu(output, name);
  require_dense_cpu(input, name);
  Tensors outputs = split_of(output, output_sizes, getSize(), name);
  Tensors inputs = split_of(input, input_sizes, getSize(), name);
  return alltoall(outputs, inputs, options);
}

MpiBackend::WorkPointer MpiBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                             const c10d::AllToAllOptions& options) {
  const at::NoGradGuard no_grad;
  MpiCall call{.what = what("all_to_all")};
  if (inputs.empty()) {
    throw UsageError(call.what + ": there are no inputs");
  }
  require_one_per_rank(inputs, getSize(), inputs[0], call.what);
  require_one_per_rank(outputs, getSize(), inputs[0], call.what);
  require_no_overlap({.writes = outputs, .reads = inputs}, call.what);
  const auto given = packed_parts(inputs, call.what);
  const auto taken = room_for(outputs, given.flat, call.what);
  call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    const auto unit = mpi_unit(mpi, given.flat);
    return mpi.ialltoallv(given.flat.data_ptr(), given.split.counts.data(),
                          given.split.offsets.data(), unit, taken.flat.data_ptr(),
                          taken.split.counts.data(), taken.split.offsets.data(), unit, comm,
                          request);
  });
  call.finish = [flat = taken.flat, outputs](const MPI_Status&) { unflatten(flat, outputs); };
  return start({c10d::OpType::ALLTOALL, options.timeout, outputs}, std::move(call));
}

}  // namespace lockstep::comm
