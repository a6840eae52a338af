// Named tensors in one file: for each a line "name dtype 2,3" and then its bytes, little-endian.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace lockstep::parity {

using Tensors = std::map<std::string, at::Tensor>;

void write(const std::filesystem::path& path, const Tensors& tensors);
Tensors read(const std::filesystem::path& path);

}  // namespace lockstep::parity
