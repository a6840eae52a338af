// The collectives that move tensors and compute nothing.
#include "lockstep/comm/backends/support/arguments.h"
#include "lockstep/comm/backends/support/cpu_backend.h"

namespace lockstep::comm {

WorkPointer CpuBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  Call call = begin({c10d::OpType::BROADCAST, "broadcast", options.timeout, tensors, tensors});
  const at::Tensor tensor = only(tensors, call.what);
  require_taken(tensor, call.what);
  require_rank(options.rootRank, getSize(), "root", call.what);
  if (options.rootRank != getRank()) {
    require_separate_elements(tensor, call.what);
  }
  return start_broadcast(std::move(call), tensor, static_cast<int>(options.rootRank));
}

WorkPointer CpuBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) {
  Call call = begin({c10d::OpType::ALLGATHER, "all_gather", options.timeout, {}, inputs});
  only(inputs, call.what);
  call.outputs = only(outputs, call.what);
  return check_all_gather(std::move(call), outputs, inputs);
}

// outputs[rank][i] receives that rank's i-th input.
WorkPointer CpuBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                            const c10d::AllgatherOptions& options) {
  Call call = begin({c10d::OpType::ALLGATHER_COALESCED, "all_gather", options.timeout, {}, inputs});
  TensorLists by_input(inputs.size());
  for (const auto& list : outputs) {
    if (outputs.size() != static_cast<std::size_t>(getSize()) || list.size() != inputs.size()) {
      throw UsageError(call.what + ": there are " + std::to_string(outputs.size()) + " lists of " +
                       std::to_string(list.size()) + " outputs, expected one list per rank, " +
                       std::to_string(getSize()) + ", of as many as there are inputs, " +
                       std::to_string(inputs.size()));
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      by_input[i].push_back(list[i]);
      call.outputs.push_back(list[i]);
    }
  }
  return check_all_gather(std::move(call), by_input, inputs);
}

WorkPointer CpuBackend::check_all_gather(Call call, const TensorLists& outputs,
                                         const Tensors& inputs) {
  Access access;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_taken(inputs[i], call.what);
    require_one_per_rank(outputs[i], getSize(), inputs[i], call.what);
    const at::Tensor& own = outputs[i][static_cast<std::size_t>(getRank())];
    if (own.numel() != inputs[i].numel()) {
      throw UsageError(call.what + ": the output for this rank has " + std::to_string(own.numel()) +
                       " elements, expected " + std::to_string(inputs[i].numel()) +
                       " as in its input");
    }
    access.writes.insert(access.writes.end(), outputs[i].begin(), outputs[i].end());
    access.read(inputs[i], own);
  }
  require_no_overlap(access, call.what);
  return start_all_gather(std::move(call), outputs, inputs);
}

WorkPointer CpuBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                        const c10d::AllgatherOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPointer CpuBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& options) {
  Call call =
      begin({c10d::OpType::_ALLGATHER_BASE, "all_gather", options.timeout, outputs, inputs});
  require_as_many(outputs.size(), inputs.size(), "inputs", call.what);
  Access access;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_dense_cpu(inputs[i], call.what);
    require_dense_cpu(outputs[i], call.what);
    if (outputs[i].numel() != inputs[i].numel() * getSize() ||
        outputs[i].scalar_type() != inputs[i].scalar_type()) {
      throw UsageError(call.what + ": the output has " + std::to_string(outputs[i].numel()) +
                       " elements of " + c10::toString(outputs[i].scalar_type()) + ", expected " +
                       std::to_string(inputs[i].numel() * getSize()) + " of " +
                       c10::toString(inputs[i].scalar_type()));
    }
    access.gather(outputs[i], inputs[i], getRank());
  }
  require_no_overlap(access, call.what);
  return start_all_gather_into(std::move(call), outputs, inputs);
}

WorkPointer CpuBackend::gather(TensorLists& outputs, Tensors& inputs,
                               const c10d::GatherOptions& options) {
  Call call = begin({c10d::OpType::GATHER, "gather", options.timeout, {}, inputs});
  const at::Tensor input = only(inputs, call.what);
  require_dense_cpu(input, call.what);
  require_rank(options.rootRank, getSize(), "root", call.what);
  if (options.rootRank == getRank()) {
    const auto& results = call.outputs = only(outputs, call.what);
    require_one_per_rank(results, getSize(), input, call.what);
    Access access{.writes = results};
    access.read(input, results[static_cast<std::size_t>(getRank())]);
    require_no_overlap(access, call.what);
  } else if (!outputs.empty()) {
    throw UsageError(call.what + ": there are outputs, but only the root gives any");
  }
  const Tensors results = call.outputs;
  return start_gather(std::move(call), results, input, static_cast<int>(options.rootRank));
}

WorkPointer CpuBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                const c10d::ScatterOptions& options) {
  Call call = begin({c10d::OpType::SCATTER, "scatter", options.timeout, outputs, {}});
  const at::Tensor output = only(outputs, call.what);
  require_dense_cpu(output, call.what);
  require_rank(options.rootRank, getSize(), "root", call.what);
  Tensors parts;
  Access access{.writes = {output}};
  if (options.rootRank == getRank()) {
    parts = only(inputs, call.what);
    require_one_per_rank(parts, getSize(), output, call.what);
    access.read(parts, getRank(), output);
  } else if (!inputs.empty()) {
    throw UsageError(call.what + ": there are inputs, but only the root gives any");
  }
  require_no_overlap(access, call.what);
  call.inputs = parts;
  return start_scatter(std::move(call), output, parts, static_cast<int>(options.rootRank));
}

WorkPointer CpuBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                      std::vector<int64_t>& output_sizes,
                                      std::vector<int64_t>& input_sizes,
                                      const c10d::AllToAllOptions& options) {
  Call call =
      begin({c10d::OpType::ALLTOALL_BASE, "all_to_all", options.timeout, {output}, {&input, 1}});
  require_dense_cpu(output, call.what);
  require_dense_cpu(input, call.what);
  const auto outputs = split_of(output, output_sizes, getSize(), call.what);
  const auto inputs = split_of(input, input_sizes, getSize(), call.what);
  return check_all_to_all(std::move(call), outputs, inputs);
}

WorkPointer CpuBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                 const c10d::AllToAllOptions& options) {
  Call call = begin({c10d::OpType::ALLTOALL, "all_to_all", options.timeout, outputs, inputs});
  return check_all_to_all(std::move(call), outputs, inputs);
}

WorkPointer CpuBackend::check_all_to_all(Call call, const Tensors& outputs, const Tensors& inputs) {
  if (inputs.empty()) {
    throw UsageError(call.what + ": there are no inputs");
  }
  require_one_per_rank(inputs, getSize(), inputs[0], call.what);
  require_one_per_rank(outputs, getSize(), inputs[0], call.what);
  require_no_overlap({.writes = outputs, .reads = inputs}, call.what);
  return start_all_to_all(std::move(call), outputs, inputs);
}

}  // namespace lockstep::comm
