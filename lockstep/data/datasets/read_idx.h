// Files of the idx format, such as MNIST's, as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace lockstep::data {

// The array in a plain or gzip file, with the file's element type. Throws IoError, naming path and
// place, unless the file is exactly one array.
at::Tensor read_idx(const std::string& path);

}  // namespace lockstep::data
