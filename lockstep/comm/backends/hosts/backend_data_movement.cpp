// The collectives of HostsBackend that move tensors and compute nothing, and its messages.
#include "lockstep/base/error.h"
#include "lockstep/comm/backends/hosts/backend.h"
#include "lockstep/comm/backends/hosts/message_work.h"
#include "lockstep/comm/backends/support/arguments.h"
#include "lockstep/comm/backends/support/tensor_bytes.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {

HostsBackend::WorkPointer HostsBackend::broadcast(Tensors& tensors,
                                                  const c10d::BroadcastOptions& options) {
  const std::string name = what("broadcast");
  const at::Tensor tensor = only(tensors, name);
  require_dense_cpu(tensor, name);
  require_rank(options.rootRank, getSize(), "root", name);
  const auto root = static_cast<int>(options.rootRank);
  if (root != getRank()) {
    require_separate_elements(tensor, name);
  }
  return start(
      "broadcast", {c10d::OpType::BROADCAST, options.timeout, tensors},
      [tensor, root, gives = root == getRank()](const HostCollectives& hosts, Deadline deadline) {
        const at::Tensor dense = without_gaps(tensor);
        hosts.broadcast(dense, root, deadline);
        if (!gives) {
          put_back({dense}, {tensor});
        }
      });
}

HostsBackend::WorkPointer HostsBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) {
  const std::string name = what("all_gather");
  only(inputs, name);
  return gather_lists({c10d::OpType::ALLGATHER, options.timeout, only(outputs, name)}, outputs,
                      inputs);
}

// outputs[rank][i] receives that rank's i-th input.
HostsBackend::WorkPointer HostsBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
  const std::string name = what("all_gather");
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
  return gather_lists({c10d::OpType::ALLGATHER_COALESCED, options.timeout, std::move(all)},
                      by_input, inputs);
}

HostsBackend::WorkPointer HostsBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::AllgatherOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

HostsBackend::WorkPointer HostsBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const std::string name = what("all_gather");
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
      "all_gather", {c10d::OpType::_ALLGATHER_BASE, options.timeout, outputs},
      [outputs, inputs, ranks = getSize(), name](const HostCollectives& hosts, Deadline deadline) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const at::Tensor dense = without_gaps(outputs[i]);
          hosts.all_gather(parts_of(dense, ranks, name), without_gaps(inputs[i]), deadline);
          put_back({dense}, {outputs[i]});
        }
      });
}

HostsBackend::WorkPointer HostsBackend::gather_lists(Start begin, const TensorLists& outputs,
                                                     const Tensors& inputs) {
  const std::string name = what("all_gather");
  Access access;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_dense_cpu(inputs[i], name);
    require_one_per_rank(outputs[i], getSize(), inputs[i], name);
    const at::Tensor& own = outputs[i][static_cast<std::size_t>(getRank())];
    if (own.numel() != inputs[i].numel()) {
      throw UsageError(name + ": the output for this rank has " + std::to_string(own.numel()) +
                       " elements, expected " + std::to_string(inputs[i].numel()) +
                       " as in its input");
    }
    access.writes.insert(access.writes.end(), outputs[i].begin(), outputs[i].end());
    access.read(inputs[i], own);
  }
  require_no_overlap(access, name);
  return start("all_gather", std::move(begin),
               [outputs, inputs](const HostCollectives& hosts, Deadline deadline) {
                 for (std::size_t i = 0; i < inputs.size(); ++i) {
                   const auto dense = without_gaps(outputs[i]);
                   hosts.all_gather(dense, without_gaps(inputs[i]), deadline);
                   put_back(dense, outputs[i]);
                 }
               });
}

HostsBackend::WorkPointer HostsBackend::gather(TensorLists& outputs, Tensors& inputs,
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
  return start("gather", {c10d::OpType::GATHER, options.timeout, results},
               [results, input, root = static_cast<int>(options.rootRank)](
                   const HostCollectives& hosts, Deadline deadline) {
                 const auto dense = without_gaps(results);
                 hosts.gather(dense, without_gaps(input), root, deadline);
                 put_back(dense, results);
               });
}

HostsBackend::WorkPointer HostsBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                                const c10d::ScatterOptions& options) {
  const std::string name = what("scatter");
  const at::Tensor output = only(outputs, name);
  require_dense_cpu(output, name);
  require_rank(options.rootRank, getSize(), "root", name);
  Access access{.writes = {output}};
  Tensors parts;
  if (options.rootRank == getRank()) {
    parts = only(inputs, name);
    require_one_per_rank(parts, getSize(), output, name);
    access.read(parts, getRank(), output);
  } else if (!inputs.empty()) {
    throw UsageError(name + ": there are inputs, but only the root gives any");
  }
  require_no_overlap(access, name);
  return start("scatter", {c10d::OpType::SCATTER, options.timeout, {output}},
               [output, parts, root = static_cast<int>(options.rootRank)](
                   const HostCollectives& hosts, Deadline deadline) {
                 const at::Tensor dense = without_gaps(output);
                 hosts.scatter(dense, without_gaps(parts), root, deadline);
                 put_back({dense}, {output});
               });
}

HostsBackend::WorkPointer HostsBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                      std::vector<int64_t>& output_sizes,
                                                      std::vector<int64_t>& input_sizes,
                                                      const c10d::AllToAllOptions& options) {
  const std::string name = what("all_to_all");
  require_dense_cpu(output, name);
  require_dense_cpu(input, name);
  return exchange({c10d::OpType::ALLTOALL_BASE, options.timeout, {output}},
                  split_of(output, output_sizes, getSize(), name),
                  split_of(input, input_sizes, getSize(), name));
}

HostsBackend::WorkPointer HostsBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllToAllOptions& options) {
  return exchange({c10d::OpType::ALLTOALL, options.timeout, outputs}, outputs, inputs);
}

HostsBackend::WorkPointer HostsBackend::exchange(Start begin, const Tensors& outputs,
                                                 const Tensors& inputs) {
  const std::string name = what("all_to_all");
  if (inputs.empty()) {
    throw UsageError(name + ": there are no inputs");
  }
  require_one_per_rank(inputs, getSize(), inputs[0], name);
  require_one_per_rank(outputs, getSize(), inputs[0], name);
  require_no_overlap({.writes = outputs, .reads = inputs}, name);
  return start("all_to_all", std::move(begin),
               [outputs, inputs](const HostCollectives& hosts, Deadline deadline) {
                 const auto dense = without_gaps(outputs);
                 hosts.all_to_all(dense, without_gaps(inputs), deadline);
                 put_back(dense, outputs);
               });
}

HostsBackend::WorkPointer HostsBackend::send(Tensors& tensors, int destination, int tag) {
  const std::string name = what("send");
  shared_->links.throw_if_broken(name);
  const at::Tensor tensor = only(tensors, name);
  require_dense_cpu(tensor, name);
  require_rank(destination, getSize(), "destination", name);
  auto message = post_send(shared_->links.mailbox(), destination, static_cast<std::uint64_t>(tag),
                           without_gaps(tensor));
  return c10::make_intrusive<MessageWork>(
      std::shared_ptr<HostLinks>(shared_, &shared_->links), std::move(message),
      MessageWork::Call{c10d::OpType::SEND, name, {tensor}, timeout_, nullptr});
}

HostsBackend::WorkPointer HostsBackend::recv(Tensors& tensors, int source, int tag) {
  require_rank(source, getSize(), "source", what("recv"));
  return receive(tensors, source, tag);
}

HostsBackend::WorkPointer HostsBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, net::kAnySource, tag);
}

HostsBackend::WorkPointer HostsBackend::receive(const Tensors& tensors, int source, int tag) {
  const std::string name = what("recv");
  shared_->links.throw_if_broken(name);
  const at::Tensor tensor = only(tensors, name);
  require_dense_cpu(tensor, name);
  require_separate_elements(tensor, name);
  const at::Tensor dense = without_gaps(tensor);
  auto message =
      post_receive(shared_->links.mailbox(), source, static_cast<std::uint64_t>(tag), dense);
  const auto type = source == net::kAnySource ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV;
  return c10::make_intrusive<MessageWork>(
      std::shared_ptr<HostLinks>(shared_, &shared_->links), std::move(message),
      MessageWork::Call{type, name, {tensor}, timeout_, copy_back({dense}, {tensor})});
}

}  // namespace lockstep::comm
