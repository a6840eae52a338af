// Group's collectives on tensors. What a backend lacks is composed here from what it has.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/support/arguments.h"
#include "lockstep/comm/backends/support/tensor_lists.h"
#include "lockstep/comm/call.h"

namespace lockstep {

using comm::Access;
using comm::copy_back;
using comm::divide_in_place;
using comm::element_counts;
using comm::flattened;
using comm::require_no_overlap;
using comm::require_separate_elements;
using comm::same_shapes;
using comm::unflatten;
using comm::without_gaps;

namespace {

c10d::ReduceOp to_c10d(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::kAvg:
      return c10d::ReduceOp::AVG;
    case ReduceOp::kProduct:
      return c10d::ReduceOp::PRODUCT;
    case ReduceOp::kMin:
      return c10d::ReduceOp::MIN;
    case ReduceOp::kMax:
      return c10d::ReduceOp::MAX;
    case ReduceOp::kBand:
      return c10d::ReduceOp::BAND;
    case ReduceOp::kBor:
      return c10d::ReduceOp::BOR;
    case ReduceOp::kBxor:
      return c10d::ReduceOp::BXOR;
  }
  throw UsageError("the reduce operation is none of ReduceOp's");
}

// How the backend is asked for a reduction, and what is left to do afterwards.
struct Plan {
  at::Tensor buffer;  // The caller's tensor, or a wider or denser copy of it.
  c10d::ReduceOp op;
  std::function<void()> finish;
};

// What the backend is asked for instead of what it lacks.
struct Instead {
  bool divide = false;  // A sum for an average.
  bool widen = false;   // 32-bit integers for 16-bit ones.
};

Plan plan_reduction(const Group& group, const at::Tensor& tensor, ReduceOp op, Instead instead) {
  Plan plan{without_gaps(instead.widen ? tensor.to(at::kInt) : tensor),
            to_c10d(instead.divide ? ReduceOp::kSum : op),
            {}};
  plan.finish = copy_back({plan.buffer}, {tensor});
  if (instead.divide) {
    plan.finish = [buffer = plan.buffer, divisor = group.size(), then = plan.finish] {
      divide_in_place(buffer, divisor);
      if (then) {
        then();
      }
    };
  }
  return plan;
}

}  // namespace

Work Group::all_reduce(const at::Tensor& tensor, const ReduceOptions& options) const {
  const Call call(*this, "all_reduce", tensor, options.timeout);
  require_separate_elements(tensor, call.what);
  // Gloo averages floating-point tensors here, and nothing elsewhere.
  const bool averages = call.can_average() || tensor.is_floating_point() || tensor.is_complex();
  Plan plan = plan_reduction(*this, tensor, options.op,
                             {.divide = options.op == ReduceOp::kAvg && !averages,
                              .widen = tensor.scalar_type() == at::kShort && !call.is_complete()});
  c10d::AllreduceOptions settings;
  settings.reduceOp = plan.op;
  settings.timeout = call.timeout;
  std::vector<at::Tensor> tensors{plan.buffer};
  return call.start([&] { return call.backend->allreduce(tensors, settings); }, plan.finish);
}

Work Group::broadcast(const at::Tensor& tensor, int root, const CollectiveOptions& options) const {
  const Call call(*this, "broadcast", tensor, options.timeout);
  call.require_rank(root, "root");
  if (rank() != root) {
    require_separate_elements(tensor, call.what);
  }
  c10d::BroadcastOptions settings;
  settings.rootRank = root;
  settings.timeout = call.timeout;
  std::vector<at::Tensor> tensors{without_gaps(tensor)};
  return call.start([&] { return call.backend->broadcast(tensors, settings); },
                    rank() == root ? nullptr : copy_back(tensors, {tensor}));
}

Work Group::reduce(const at::Tensor& tensor, int root, const ReduceOptions& options) const {
  const Call call(*this, "reduce", tensor, options.timeout);
  call.require_rank(root, "root");
  if (rank() == root) {
    require_separate_elements(tensor, call.what);
  }
  Plan plan = plan_reduction(*this, tensor, options.op,
                             {.divide = options.op == ReduceOp::kAvg && !call.can_average(),
                              .widen = tensor.scalar_type() == at::kShort && !call.is_complete()});
  c10d::ReduceOptions settings;
  settings.reduceOp = plan.op;
  settings.rootRank = root;
  settings.timeout = call.timeout;
  std::vector<at::Tensor> tensors{plan.buffer};
  return call.start([&] { return call.backend->reduce(tensors, settings); },
                    rank() == root ? plan.finish : nullptr);
}

Work Group::all_gather(const std::vector<at::Tensor>& outputs, const at::Tensor& input,
                       const CollectiveOptions& options) const {
  const Call call(*this, "all_gather", input, options.timeout);
  call.require_one_per_rank(outputs, "outputs", input);
  if (outputs[static_cast<std::size_t>(rank())].sizes() != input.sizes()) {
    call.reject("the input and outputs[rank] differ in shape, expected the same");
  }
  Access access{.writes = outputs};
  access.read(input, outputs[static_cast<std::size_t>(rank())]);
  require_no_overlap(access, call.what);
  c10d::AllgatherOptions settings;
  settings.timeout = call.timeout;
  std::vector<std::vector<at::Tensor>> lists{without_gaps(outputs)};
  std::vector<at::Tensor> inputs{without_gaps(input)};
  if (call.is_complete() || same_shapes(outputs, input)) {
    return call.start([&] { return call.backend->allgather(lists, inputs, settings); },
                      copy_back(lists[0], outputs));
  }
  // Unequal sizes: every rank sends as much as the largest one, and the padding is cut off
  // afterwards.
  const auto counts = element_counts(outputs);
  const auto most = *std::max_element(counts.begin(), counts.end());
  inputs[0] = at::zeros({most}, input.options());
  inputs[0].narrow(0, 0, input.numel()).copy_(input.reshape({-1}));
  for (auto& padded : lists[0]) {
    padded = at::empty({most}, input.options());
  }
  return call.start([&] { return call.backend->allgather(lists, inputs, settings); },
                    [outputs, padded = lists[0]] {
                      for (std::size_t i = 0; i < outputs.size(); ++i) {
                        unflatten(padded[i], {outputs[i]});
                      }
                    });
}

Work Group::gather(const std::vector<at::Tensor>& outputs, const at::Tensor& input, int root,
                   const CollectiveOptions& options) const {
  const Call call(*this, "gather", input, options.timeout);
  call.require_rank(root, "root");
  std::vector<std::vector<at::Tensor>> lists;
  if (rank() == root) {
    call.require_one_per_rank(outputs, "outputs", input);
    Access access{.writes = outputs};
    access.read(input, outputs[static_cast<std::size_t>(rank())]);
    require_no_overlap(access, call.what);
    lists.push_back(without_gaps(outputs));
  } else if (!outputs.empty()) {
    call.reject("there are outputs, but only the root (rank " + std::to_string(root) +
                ") gives any");
  }
  c10d::GatherOptions settings;
  settings.rootRank = root;
  settings.timeout = call.timeout;
  std::vector<at::Tensor> inputs{without_gaps(input)};
  return call.start([&] { return call.backend->gather(lists, inputs, settings); },
                    lists.empty() ? nullptr : copy_back(lists[0], outputs));
}

Work Group::scatter(const at::Tensor& output, const std::vector<at::Tensor>& inputs, int root,
                    const CollectiveOptions& options) const {
  const Call call(*this, "scatter", output, options.timeout);
  call.require_rank(root, "root");
  std::vector<std::vector<at::Tensor>> lists;
  Access access{.writes = {output}};
  if (rank() == root) {
    call.require_one_per_rank(inputs, "inputs", output);
    access.read(inputs, rank(), output);
    lists.push_back(without_gaps(inputs));
  } else if (!inputs.empty()) {
    call.reject("there are inputs, but only the root (rank " + std::to_string(root) +
                ") gives any");
  }
  require_no_overlap(access, call.what);
  c10d::ScatterOptions settings;
  settings.rootRank = root;
  settings.timeout = call.timeout;
  std::vector<at::Tensor> outputs{without_gaps(output)};
  return call.start([&] { return call.backend->scatter(outputs, lists, settings); },
                    copy_back(outputs, {output}));
}

Work Group::reduce_scatter(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                           const ReduceOptions& options) const {
  const Call call(*this, "reduce_scatter", output, options.timeout);
  call.require_one_per_rank(inputs, "inputs", output);
  if (inputs[static_cast<std::size_t>(rank())].sizes() != output.sizes()) {
    call.reject("the output and inputs[rank] differ in shape, expected the same");
  }
  Access access{.writes = {output}};
  access.read(inputs, rank(), output);
  require_no_overlap(access, call.what);
  if (call.is_complete() || (call.can_average() && same_shapes(inputs, output))) {
    c10d::ReduceScatterOptions settings;
    settings.reduceOp = to_c10d(options.op);
    settings.timeout = call.timeout;
    std::vector<at::Tensor> outputs{without_gaps(output)};
    std::vector<std::vector<at::Tensor>> lists{without_gaps(inputs)};
    return call.start([&] { return call.backend->reduce_scatter(outputs, lists, settings); },
                      copy_back(outputs, {output}));
  }
  // Reduces everything, and each rank keeps its part. This is correct for unequal shapes and for
  // every dtype; Gloo's own reduce_scatter is not.
  const at::Tensor all = flattened(inputs);
  const auto counts = element_counts(inputs);
  const auto before = std::accumulate(counts.begin(), counts.begin() + rank(), std::int64_t{0});
  Work reduction = all_reduce(all, options);
  auto finish = [reduction, all, output, before]() mutable {
    reduction.wait();
    unflatten(all.narrow(0, before, output.numel()), {output});
  };
  auto state = std::make_shared<Work::State>(*reduction.state_);
  state->what = call.what;
  state->finish = finish;
  return Work(std::move(state));
}

Work Group::all_to_all(const std::vector<at::Tensor>& outputs,
                       const std::vector<at::Tensor>& inputs,
                       const CollectiveOptions& options) const {
  const Call call(*this, "all_to_all", inputs.empty() ? at::Tensor() : inputs[0], options.timeout);
  call.require_one_per_rank(inputs, "inputs", inputs[0]);
  call.require_one_per_rank(outputs, "outputs", inputs[0]);
  require_no_overlap({.writes = outputs, .reads = inputs}, call.what);
  c10d::AllToAllOptions settings;
  settings.timeout = call.timeout;
  if (call.is_complete()) {
    std::vector<at::Tensor> given = inputs;
    std::vector<at::Tensor> taken = outputs;
    return call.start([&] { return call.backend->alltoall(taken, given, settings); });
  }
  // The flat form is the one that Gloo has in all supported versions.
  at::Tensor sent = flattened(inputs);
  auto sent_counts = element_counts(inputs);
  auto received_counts = element_counts(outputs);
  at::Tensor received =
      at::empty({std::accumulate(received_counts.begin(), received_counts.end(), std::int64_t{0})},
                sent.options());
  return call.start(
      [&] {
        return call.backend->alltoall_base(received, sent, received_counts, sent_counts, settings);
      },
      [received, sent, outputs] { unflatten(received, outputs); });
}

Work Group::send(const at::Tensor& tensor, int destination,
                 const PointToPointOptions& options) const {
  const Call call(*this, "send", tensor, options.timeout, Call::Kind::kMessage);
  call.require_rank(destination, "destination");
  if (destination == rank()) {
    call.reject("the destination is this rank itself, expected another");
  }
  std::vector<at::Tensor> tensors{without_gaps(tensor)};
  Work work = call.start([&] { return call.backend->send(tensors, destination, options.tag); });
  work.state_->timeout = call.timeout;
  return work;
}

Work Group::recv(const at::Tensor& tensor, int source, const PointToPointOptions& options) const {
  const Call call(*this, "recv", tensor, options.timeout, Call::Kind::kMessage);
  call.require_rank(source, "source");
  if (source == rank()) {
    call.reject("the source is this rank itself, expected another");
  }
  require_separate_elements(tensor, call.what);
  std::vector<at::Tensor> tensors{without_gaps(tensor)};
  Work work = call.start([&] { return call.backend->recv(tensors, source, options.tag); },
                         copy_back(tensors, {tensor}));
  work.state_->timeout = call.timeout;
  return work;
}

}  // namespace lockstep
