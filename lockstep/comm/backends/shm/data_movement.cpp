// The collectives of the shm backend that move tensors and compute nothing.
#include "lockstep/base/error.h"
#include "lockstep/comm/backends/shm/backend.h"
#include "lockstep/comm/backends/support/arguments.h"

namespace lockstep::comm {

ShmBackend::WorkPointer ShmBackend::broadcast(Tensors& tensors,
                                              const c10d::BroadcastOptions& options) {
  const std::string name = what("broadcast");
  const at::Tensor tensor = only(tensors, name);
  require_dense(tensor, name);
  require_rank(options.rootRank, getSize(), "root", name);
  const bool gives = options.rootRank == getRank();
  if (!gives) {
    require_separate_elements(tensor, name);
  }
  return start({c10d::OpType::BROADCAST, options.timeout, {tensor}, tensors},
               [tensor, gives, root = static_cast<int>(options.rootRank)](shm::Team& team,
                                                                          Deadline deadline) {
                 const Packed packed(tensor, gives ? Packed::Use::kRead : Packed::Use::kWrite);
                 shm::broadcast(team, packed.tensor(), shm_dtype(tensor.scalar_type()), root,
                                deadline);
                 if (!gives) {
                   packed.write_back();
                 }
               });
}

ShmBackend::WorkPointer ShmBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  const std::string name = what("allgather");
  only(inputs, name);
  return gather_lists({c10d::OpType::ALLGATHER, options.timeout, only(outputs, name), inputs},
                      outputs, inputs);
}

// outputs[rank][i] receives that rank's i-th input.
ShmBackend::WorkPointer ShmBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& options) {
  const std::string name = what("allgather_coalesced");
  Tensors all;
  TensorLists by_input(inputs.size());
  for (const auto& list : outputs) {
    if (outputs.size() != static_cast<std::size_t>(getSize()) || list.size() != inputs.size()) {
      throw UsageError(name + ": there are " + std::to_string(outputs.size()) + " lists of " +
                       std::to_string(list.size()) + " outputs, expected one list per rank, " +
                       std::to_string(getSize()) + ", of as many as there are inputs, " +
                       std::to_string(inputs.size()));
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      by_input[i].push_back(list[i]);
      all.push_back(list[i]);
    }
  }
  return gather_lists({c10d::OpType::ALLGATHER_COALESCED, options.timeout, std::move(all), inputs},
                      by_input, inputs);
}

ShmBackend::WorkPointer ShmBackend::gather_lists(Start begin, const TensorLists& outputs,
                                                 const Tensors& inputs) {
  const std::string name = what("allgather");
  Access access;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_dense(inputs[i], name);
    require_one_per_rank(outputs[i], getSize(), inputs[i], name);
    access.writes.insert(access.writes.end(), outputs[i].begin(), outputs[i].end());
    access.read(inputs[i], outputs[i][static_cast<std::size_t>(getRank())]);
  }
  require_no_overlap(access, name);
  return start(std::move(begin), [outputs, inputs](shm::Team& team, Deadline deadline) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto results = packed(outputs[i], Packed::Use::kWrite);
      shm::all_gather(team, outputs_of(results), Packed(inputs[i], Packed::Use::kRead).input(),
                      shm_dtype(inputs[i].scalar_type()), deadline);
      write_back(results);
    }
  });
}

ShmBackend::WorkPointer ShmBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

ShmBackend::WorkPointer ShmBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const std::string name = what("allgather_into_tensor");
  require_as_many(outputs, inputs, name);
  Access access;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_dense_cpu(inputs[i], name);
    require_dense_cpu(outputs[i], name);
    if (outputs[i].numel() != inputs[i].numel() * getSize() ||
        outputs[i].scalar_type() != inputs[i].scalar_type()) {
      throw UsageError(name + ": the output has " + std::to_string(outputs[i].numel()) +
                       " elements of " + c10::toString(outputs[i].scalar_type()) + ", expected " +
                       std::to_string(inputs[i].numel() * getSize()) + " of " +
                       c10::toString(inputs[i].scalar_type()));
    }
    access.gather(outputs[i], inputs[i], getRank());
  }
  require_no_overlap(access, name);
  return start(
      {c10d::OpType::_ALLGATHER_BASE, options.timeout, outputs, inputs},
      [outputs, inputs](shm::Team& team, Deadline deadline) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const Packed result(outputs[i], Packed::Use::kWrite);
          const Packed input(inputs[i], Packed::Use::kRead);
          std::vector<shm::Output> parts;
          for (int rank = 0; rank < team.size(); ++rank) {
            parts.push_back(
                {result.data() + static_cast<std::size_t>(rank) * input.bytes(), input.bytes()});
          }
          shm::all_gather(team, parts, input.input(), shm_dtype(inputs[i].scalar_type()), deadline);
          result.write_back();
        }
      });
}

ShmBackend::WorkPointer ShmBackend::gather(TensorLists& outputs, Tensors& inputs,
                                           const c10d::GatherOptions& options) {
  const std::string name = what("gather");
  const at::Tensor input = only(inputs, name);
  require_dense_cpu(input, name);
  require_rank(options.rootRank, getSize(), "root", name);
  Tensors results;
  if (options.rootRank == getRank()) {
    results = only(outputs, name);
    require_one_per_rank(results, getSize(), input, name);
    Access access{.writes = results};
    access.read(input, results[static_cast<std::size_t>(getRank())]);
    require_no_overlap(access, name);
  } else if (!outputs.empty()) {
    throw UsageError(name + ": there are outputs, but only the root gives any");
  }
  return start({c10d::OpType::GATHER, options.timeout, results, inputs},
               [results, input, root = static_cast<int>(options.rootRank)](shm::Team& team,
                                                                           Deadline deadline) {
                 const auto gathered = packed(results, Packed::Use::kWrite);
                 shm::gather(team, outputs_of(gathered), Packed(input, Packed::Use::kRead).input(),
                             shm_dtype(input.scalar_type()), root, deadline);
                 write_back(gathered);
               });
}

ShmBackend::WorkPointer ShmBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                            const c10d::ScatterOptions& options) {
  const std::string name = what("scatter");
  const at::Tensor output = only(outputs, name);
  require_dense_cpu(output, name);
  require_rank(options.rootRank, getSize(), "root", name);
  Tensors parts;
  Access access{.writes = {output}};
  if (options.rootRank == getRank()) {
    parts = only(inputs, name);
    require_one_per_rank(parts, getSize(), output, name);
    access.read(parts, getRank(), output);
  } else if (!inputs.empty()) {
    throw UsageError(name + ": there are inputs, but only the root gives any");
  }
  require_no_overlap(access, name);
  return start({c10d::OpType::SCATTER, options.timeout, {output}, parts},
               [output, parts, root = static_cast<int>(options.rootRank)](shm::Team& team,
                                                                          Deadline deadline) {
                 const Packed result(output, Packed::Use::kWrite);
                 const auto given = packed(parts, Packed::Use::kRead);
                 shm::scatter(team, result.output(), inputs_of(given),
                              shm_dtype(output.scalar_type()), root, deadline);
                 result.write_back();
               });
}

ShmBackend::WorkPointer ShmBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<int64_t>& output_sizes,
                                                  std::vector<int64_t>& input_sizes,
                                                  const c10d::AllToAllOptions& options) {
  const std::string name = what("all_to_all");
  require_dense_cpu(output, name);
  require_dense_cpu(input, name);
  return exchange({c10d::OpType::ALLTOALL_BASE, options.timeout, {output}, {&input, 1}},
                  split_of(output, output_sizes, getSize(), name),
                  split_of(input, input_sizes, getSize(), name));
}

ShmBackend::WorkPointer ShmBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                             const c10d::AllToAllOptions& options) {
  return exchange({c10d::OpType::ALLTOALL, options.timeout, outputs, inputs}, outputs, inputs);
}

ShmBackend::WorkPointer ShmBackend::exchange(Start begin, const Tensors& outputs,
                                             const Tensors& inputs) {
  const std::string name = what("all_to_all");
  if (inputs.empty()) {
    throw UsageError(name + ": there are no inputs");
  }
  require_one_per_rank(inputs, getSize(), inputs[0], name);
  require_one_per_rank(outputs, getSize(), inputs[0], name);
  require_no_overlap({.writes = outputs, .reads = inputs}, name);
  return start(std::move(begin), [outputs, inputs](shm::Team& team, Deadline deadline) {
    const auto results = packed(outputs, Packed::Use::kWrite);
    const auto given = packed(inputs, Packed::Use::kRead);
    shm::all_to_all(team, outputs_of(results), inputs_of(given), shm_dtype(inputs[0].scalar_type()),
                    deadline);
    write_back(results);
  });
}

}  // namespace lockstep::comm
