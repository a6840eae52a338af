// The sum of sparse tensors: gathered whole on every rank, then added in rank order.
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm_backend.h"

namespace lockstep::comm {
namespace {

// Each rank's tensor; the first dimension may differ between ranks and is `lengths`.
std::vector<at::Tensor> gather_all(shm::Team& team, const at::Tensor& own,
                                   const std::vector<int64_t>& lengths, Deadline deadline) {
  std::vector<at::Tensor> all;
  for (const int64_t length : lengths) {
    auto shape = own.sizes().vec();
    shape[0] = length;
    all.push_back(at::empty(shape, own.options()));
  }
  const auto results = packed(all, Packed::Use::kWrite);
  shm::all_gather(team, outputs_of(results), Packed(own, Packed::Use::kRead).input(),
                  shm_dtype(own.scalar_type()), deadline);
  write_back(results);
  return all;
}

// Dense and sparse dimensions, the number of values and the shape.
std::vector<int64_t> description_of(const at::Tensor& sparse) {
  std::vector<int64_t> text{sparse.sparse_dim(), sparse.dense_dim(), sparse._nnz()};
  text.insert(text.end(), sparse.sizes().begin(), sparse.sizes().end());
  return text;
}

}  // namespace

at::Tensor shm_sparse_sum(shm::Team& team, const at::Tensor& tensor, Deadline deadline) {
  const at::Tensor own = tensor.coalesce();
  const auto mine = description_of(own);
  const auto ranks = static_cast<std::size_t>(team.size());
  // A rank with another number of dimensions is a mismatch of sizes on all ranks.
  const auto lines =
      gather_all(team, at::tensor(mine, at::kLong),
                 std::vector<int64_t>(ranks, static_cast<int64_t>(mine.size())), deadline);
  std::vector<int64_t> counts;
  constexpr std::size_t kCount = 2;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto* line = lines[rank].const_data_ptr<int64_t>();
    counts.push_back(line[kCount]);
    const auto* first = lines[0].const_data_ptr<int64_t>();
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (i != kCount && line[i] != first[i]) {
        team.mismatch("rank 0 and rank " + std::to_string(rank) +
                      " have sparse tensors of different shapes");
      }
    }
    if (counts.back() < 0) {
      team.mismatch("rank " + std::to_string(rank) + " has a negative number of values");
    }
  }
  // What a peer sent is used as an index by whoever makes the sum dense.
  const auto check = [&](const at::Tensor& indices, std::size_t rank) {
    const auto* index = indices.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < indices.numel(); ++i) {
      if (index[i] < 0 || index[i] >= own.size(i % own.sparse_dim())) {
        team.mismatch("rank " + std::to_string(rank) +
                      " has an index outside of its sparse tensor");
      }
    }
  };
  const auto indices = gather_all(team, own.indices().t().contiguous(), counts, deadline);
  const auto values = gather_all(team, own.values().contiguous(), counts, deadline);
  at::Tensor sum;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    check(indices[rank], rank);
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const at::Tensor part =
        at::_sparse_coo_tensor_unsafe(indices[rank].t(), values[rank], own.sizes(), own.options());
    sum = rank == 0 ? part : sum.add(part);
  }
  return sum.coalesce();
}

}  // namespace lockstep::comm
