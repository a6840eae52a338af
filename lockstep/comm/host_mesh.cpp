// The collectives over several hosts in which ranks send to ranks.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/comm/host_bytes.h"
#include "lockstep/comm/host_collectives.h"
#include "lockstep/comm/tensor_lists.h"

namespace lockstep::comm {
namespace {

using Numbers = std::vector<std::int64_t>;

// As long as the longest, for Gloo, which takes equal ones alone.
at::Tensor padded(const at::Tensor& bytes, std::int64_t length) {
  at::Tensor result = at::zeros({length}, at::kByte);
  result.narrow(0, 0, bytes.numel()).copy_(bytes);
  return result;
}

}  // namespace

std::vector<Numbers> HostCollectives::all_rows(const Numbers& mine, Deadline deadline) const {
  const auto columns = static_cast<std::int64_t>(mine.size());
  const at::Tensor all = at::empty({parts_.size, columns}, at::kLong);
  const at::Tensor input = at::empty({columns}, at::kLong);
  std::copy(mine.begin(), mine.end(), input.mutable_data_ptr<std::int64_t>());
  all_gather(all.unbind(), input, deadline);
  std::vector<Numbers> rows;
  const auto* numbers = all.const_data_ptr<std::int64_t>();
  for (int rank = 0; rank < parts_.size; ++rank) {
    rows.emplace_back(numbers + rank * columns, numbers + (rank + 1) * columns);
  }
  return rows;
}

void HostCollectives::require_fit(std::int64_t has, std::int64_t given, int from, int to) const {
  if (has != given) {
    throw PeerError("the ranks' calls do not match: rank " + std::to_string(from) + " gives " +
                    std::to_string(given) + " bytes to rank " + std::to_string(to) +
                    ", which expects " + std::to_string(has) +
                    "; both must have tensors of the same size");
  }
}

void HostCollectives::gather(const Tensors& outputs, const at::Tensor& input, int root,
                             Deadline deadline) const {
  ask("gather (to rank " + std::to_string(root) + ")", deadline).require(map_);
  const auto rows = all_rows({static_cast<std::int64_t>(input.nbytes())}, deadline);
  const std::int64_t longest = (*std::max_element(rows.begin(), rows.end()))[0];
  std::vector<Tensors> lists;
  const Tensors results = as_bytes(outputs);
  if (parts_.rank == root) {
    lists.emplace_back();
    for (int rank = 0; rank < parts_.size; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      require_fit(results[i].numel(), rows[i][0], rank, root);
      lists[0].push_back(empty_bytes(longest));
    }
  }
  if (longest == 0) {
    return;
  }
  Tensors inputs{padded(as_bytes(input), longest)};
  auto options = with_timeout<c10d::GatherOptions>(deadline);
  options.rootRank = root;
  waiter_.wait(*waiter_.remember(parts_.everybody->gather(lists, inputs, options)));
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].copy_(lists[0][i].narrow(0, 0, results[i].numel()));
  }
}

void HostCollectives::scatter(const at::Tensor& output, const Tensors& inputs, int root,
                              Deadline deadline) const {
  ask("scatter (from rank " + std::to_string(root) + ")", deadline).require(map_);
  const auto rows = all_rows({static_cast<std::int64_t>(output.nbytes())}, deadline);
  const std::int64_t longest = (*std::max_element(rows.begin(), rows.end()))[0];
  std::vector<Tensors> lists;
  if (parts_.rank == root) {
    lists.emplace_back();
    for (int rank = 0; rank < parts_.size; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      const at::Tensor bytes = as_bytes(inputs[i]);
      require_fit(rows[i][0], bytes.numel(), root, rank);
      lists[0].push_back(padded(bytes, longest));
    }
  }
  if (longest == 0) {
    return;
  }
  Tensors outputs{empty_bytes(longest)};
  auto options = with_timeout<c10d::ScatterOptions>(deadline);
  options.rootRank = root;
  waiter_.wait(*waiter_.remember(parts_.everybody->scatter(outputs, lists, options)));
  const at::Tensor bytes = as_bytes(output);
  bytes.copy_(outputs[0].narrow(0, 0, bytes.numel()));
}

void HostCollectives::all_to_all(const Tensors& outputs, const Tensors& inputs,
                                 Deadline deadline) const {
  ask("all_to_all", deadline).require(map_);
  const Tensors given = as_bytes(inputs);
  const Tensors taken = as_bytes(outputs);
  Numbers given_counts = element_counts(given);
  Numbers taken_counts = element_counts(taken);
  const auto rows = all_rows(given_counts, deadline);
  for (int rank = 0; rank < parts_.size; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    require_fit(taken_counts[i], rows[i][static_cast<std::size_t>(parts_.rank)], rank, parts_.rank);
  }
  at::Tensor sent = flattened(given);
  at::Tensor received =
      empty_bytes(std::accumulate(taken_counts.begin(), taken_counts.end(), std::int64_t{0}));
  const auto options = with_timeout<c10d::AllToAllOptions>(deadline);
  waiter_.wait(*waiter_.remember(
      parts_.everybody->alltoall_base(received, sent, taken_counts, given_counts, options)));
  unflatten(received, taken);
}

void HostCollectives::all_reduce_sparse(at::Tensor tensor, Deadline deadline) const {
  ask("all_reduce of sparse tensors", deadline).require(map_);
  Tensors tensors{std::move(tensor)};
  const auto options = with_timeout<c10d::AllreduceOptions>(deadline);
  waiter_.wait(*waiter_.remember(parts_.everybody->allreduce(tensors, options)));
}

}  // namespace lockstep::comm
