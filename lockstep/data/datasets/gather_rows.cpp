#include "lockstep/data/datasets/gather_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <cstring>
#include <vector>

namespace lockstep::data {
namespace {

constexpr std::size_t kNumber = 8;  // Bytes of a label.

// The most common small row is one number; a memcpy() of a size that the compiler does not know
// takes ten times as long.
void gather_numbers(const std::byte* from, std::span<const std::int64_t> indices, std::byte* to) {
  for (const std::int64_t index : indices) {
    std::memcpy(to, from + static_cast<std::size_t>(index) * kNumber, kNumber);
    to += kNumber;
  }
}

void gather_bytes(const std::byte* from, std::span<const std::int64_t> indices, std::size_t bytes,
                  std::byte* to) {
  for (const std::int64_t index : indices) {
    std::memcpy(to, from + static_cast<std::size_t>(index) * bytes, bytes);
    to += bytes;
  }
}

}  // namespace

at::Tensor gather_rows(const at::Tensor& rows, std::span<const std::int64_t> indices) {
  const auto count = static_cast<std::int64_t>(indices.size());
  if (!rows.is_cpu() || rows.layout() != at::kStrided || rows.requires_grad() ||
      !rows.is_contiguous()) {
    const at::Tensor wanted =
        at::tensor(at::ArrayRef<std::int64_t>(indices.data(), indices.size()), at::kLong);
    return at::index_select(rows, 0, wanted.to(rows.device()));
  }
  std::vector<std::int64_t> sizes = rows.sizes().vec();
  sizes[0] = count;
  at::Tensor batch = at::empty(sizes, rows.options());
  if (batch.numel() > 0) {
    const auto* from = static_cast<const std::byte*>(rows.const_data_ptr());
    auto* to = static_cast<std::byte*>(batch.mutable_data_ptr());
    const std::size_t bytes = batch.nbytes() / indices.size();
    bytes == kNumber ? gather_numbers(from, indices, to) : gather_bytes(from, indices, bytes, to);
  }
  return batch;
}

}  // namespace lockstep::data
