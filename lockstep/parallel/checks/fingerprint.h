// A number by which two ranks can tell that their copies of a tensor are not the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

namespace lockstep::parallel {

// A hash of the values' bits. One flipped bit always changes it; any other difference goes
// unnoticed with a probability of 2^-64. A tensor on a GPU is copied to the host.
std::uint64_t fingerprint(const at::Tensor& tensor);

std::uint64_t fingerprint(const std::byte* data, std::size_t bytes);

}  // namespace lockstep::parallel
