// The collectives over several hosts in which ranks send to ranks.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/hosts/collectives.h"
#include "lockstep/comm/backends/hosts/tensor_bytes.h"
#include "lockstep/comm/backends/support/sparse_sum.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {
namespace {

using Numbers = std::vector<std::int64_t>;

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

void HostCollectives::require_fit(const Sizes& sizes) const {
  for (int from = 0; from < parts_.size; ++from) {
    for (int to = 0; to < parts_.size; ++to) {
      const auto given = sizes.given(from, to);
      const auto expected = sizes.taken(to, from);
      if (given != expected) {
        throw PeerError("the ranks' calls do not match: rank " + std::to_string(from) + " gives " +
                        std::to_string(given) + " bytes to rank " + std::to_string(to) +
                        ", which expects " + std::to_string(expected) +
                        "; both must have tensors of the same size");
      }
    }
  }
}

// Before anything is sent, all ranks know what each rank sends to and expects from each other one.
// So a call that does not fit is the same error on all ranks.
void HostCollectives::exchange(const Tensors& outputs, const Tensors& inputs,
                               Deadline deadline) const {
  const Tensors given = as_bytes(inputs);
  const Tensors taken = as_bytes(outputs);
  Numbers mine = element_counts(given);
  const Numbers more = element_counts(taken);
  mine.insert(mine.end(), more.begin(), more.end());
  require_fit({.rows = all_rows(mine, deadline), .size = parts_.size});
  const auto tag = kFirstTag + exchanges_++;
  std::vector<net::MessagePointer> messages;
  for (int step = 1; step < parts_.size; ++step) {  // Not all to the same rank at once.
    const int to = (parts_.rank + step) % parts_.size;
    const int from = (parts_.rank + parts_.size - step) % parts_.size;
    if (const auto& tensor = taken[static_cast<std::size_t>(from)]; tensor.numel() > 0) {
      messages.push_back(post_receive(*parts_.mailbox, from, tag, tensor));
    }
    if (const auto& tensor = given[static_cast<std::size_t>(to)]; tensor.numel() > 0) {
      messages.push_back(post_send(*parts_.mailbox, to, tag, tensor));
    }
  }
  const auto own = static_cast<std::size_t>(parts_.rank);
  taken[own].copy_(given[own]);
  for (const auto& message : messages) {
    comm::await(*parts_.mailbox, *message, map_, [this] { return waiter_.has_ended(); }, deadline);
  }
}

void HostCollectives::gather(const Tensors& outputs, const at::Tensor& input, int root,
                             Deadline deadline) const {
  check_call("gather (to rank " + std::to_string(root) + ")", deadline).require(map_);
  const auto ranks = static_cast<std::size_t>(parts_.size);
  Tensors given(ranks, empty_bytes(0));
  given[static_cast<std::size_t>(root)] = input;
  exchange(parts_.rank == root ? outputs : Tensors(ranks, empty_bytes(0)), given, deadline);
}

void HostCollectives::scatter(const at::Tensor& output, const Tensors& inputs, int root,
                              Deadline deadline) const {
  check_call("scatter (from rank " + std::to_string(root) + ")", deadline).require(map_);
  const auto ranks = static_cast<std::size_t>(parts_.size);
  Tensors taken(ranks, empty_bytes(0));
  taken[static_cast<std::size_t>(root)] = output;
  exchange(taken, parts_.rank == root ? inputs : Tensors(ranks, empty_bytes(0)), deadline);
}

void HostCollectives::all_to_all(const Tensors& outputs, const Tensors& inputs,
                                 Deadline deadline) const {
  check_call("all_to_all", deadline).require(map_);
  exchange(outputs, inputs, deadline);
}

void HostCollectives::all_reduce_sparse(const at::Tensor& tensor, Deadline deadline) const {
  check_call("all_reduce of sparse tensors", deadline).require(map_);
  const at::Tensor sum = sparse_sum(
      parts_.size, tensor,
      {.all_gather = [&](const Tensors& outputs,
                         const at::Tensor& input) { all_gather(outputs, input, deadline); },
       .mismatch =
           [](const std::string& words) {
             throw PeerError("the ranks' calls do not match: " + words);
           }});
  tensor.copy_(sum);
}

}  // namespace lockstep::comm
