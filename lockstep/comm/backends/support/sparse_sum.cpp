#include "lockstep/comm/backends/support/sparse_sum.h"

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

namespace lockstep::comm {
namespace {

// Each rank's tensor; the first dimension may differ between ranks and is `lengths`.
std::vector<at::Tensor> gather_all(const SparseExchange& exchange, const at::Tensor& own,
                                   const std::vector<int64_t>& lengths) {
  std::vector<at::Tensor> all;
  for (const int64_t length : lengths) {
    auto shape = own.sizes().vec();
    shape[0] = length;
    all.push_back(at::empty(shape, own.options()));
  }
  exchange.all_gather(all, own);
  return all;
}

// Dense and sparse dimensions, the number of values, the dtype and the shape.
std::vector<int64_t> description_of(const at::Tensor& sparse) {
  std::vector<int64_t> text{sparse.sparse_dim(), sparse.dense_dim(), sparse._nnz(),
                            static_cast<int64_t>(sparse.scalar_type())};
  text.insert(text.end(), sparse.sizes().begin(), sparse.sizes().end());
  return text;
}

}  // namespace

at::Tensor sparse_sum(int size, const at::Tensor& tensor, const SparseExchange& exchange) {
  const at::Tensor own = tensor.coalesce();
  const auto mine = description_of(own);
  const auto ranks = static_cast<std::size_t>(size);
  // A rank with another number of dimensions is a mismatch of sizes on all ranks.
  const auto lines = gather_all(exchange, at::tensor(mine, at::kLong),
                                std::vector<int64_t>(ranks, static_cast<int64_t>(mine.size())));
  std::vector<int64_t> counts;
  constexpr std::size_t kCount = 2;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto* line = lines[rank].const_data_ptr<int64_t>();
    counts.push_back(line[kCount]);
    const auto* first = lines[0].const_data_ptr<int64_t>();
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (i != kCount && line[i] != first[i]) {
        exchange.mismatch("rank 0 and rank " + std::to_string(rank) +
                          " have sparse tensors of different shapes or dtypes");
      }
    }
    if (counts.back() < 0) {
      exchange.mismatch("rank " + std::to_string(rank) + " has a negative number of values");
    }
  }
  // What a peer sent is used as an index by whoever makes the sum dense.
  const auto check = [&](const at::Tensor& indices, std::size_t rank) {
    const auto* index = indices.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < indices.numel(); ++i) {
      if (index[i] < 0 || index[i] >= own.size(i % own.sparse_dim())) {
        exchange.mismatch("rank " + std::to_string(rank) +
                          " has an index outside of its sparse tensor");
      }
    }
  };
  const auto indices = gather_all(exchange, own.indices().t().contiguous(), counts);
  const auto values = gather_all(exchange, own.values().contiguous(), counts);
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
