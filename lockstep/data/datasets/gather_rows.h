// Rows of a tensor by their indices, for data sets that lie in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace lockstep::data {

// A copy, in the order of `indices`, made by the calling thread alone. The indices must be in
// range.
at::Tensor gather_rows(const at::Tensor& rows, std::span<const std::int64_t> indices);

}  // namespace lockstep::data
