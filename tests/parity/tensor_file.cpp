#include "tests/parity/tensor_file.h"

#include <ATen/ops/empty.h>

#include <fstream>
#include <sstream>

#include "lockstep/base/text/text.h"

namespace lockstep::parity {
namespace {

const std::map<std::string, at::ScalarType> kDtypes{{"float32", at::kFloat},
                                                    {"float64", at::kDouble},
                                                    {"bfloat16", at::kBFloat16},
                                                    {"int64", at::kLong}};

std::string name_of(at::ScalarType dtype) {
  for (const auto& [name, known] : kDtypes) {
    if (known == dtype) {
      return name;
    }
  }
  throw std::runtime_error(std::string("no name for the dtype ") + c10::toString(dtype));
}

char* bytes_of(const at::Tensor& tensor) { return static_cast<char*>(tensor.data_ptr()); }

}  // namespace

void write(const std::filesystem::path& path, const Tensors& tensors) {
  std::ofstream file;
  file.exceptions(std::ios::failbit | std::ios::badbit);
  file.open(path, std::ios::binary);
  for (const auto& [name, tensor] : tensors) {
    const auto dense = tensor.detach().cpu().to_dense().contiguous();
    file << name << ' ' << name_of(dense.scalar_type()) << ' ';
    for (std::int64_t i = 0; i < dense.dim(); ++i) {
      file << (i == 0 ? "" : ",") << dense.size(i);
    }
    file << '\n';
    file.write(bytes_of(dense), static_cast<std::streamsize>(dense.nbytes()));
  }
}

Tensors read(const std::filesystem::path& path) {
  std::ifstream file;
  file.exceptions(std::ios::badbit);
  file.open(path, std::ios::binary);
  Tensors tensors;
  for (std::string line; std::getline(file, line);) {
    const auto parts = split(line, ' ');
    std::vector<std::int64_t> sizes;
    std::istringstream list(parts.at(2));
    for (std::string size; std::getline(list, size, ',');) {
      sizes.push_back(std::stoll(size));
    }
    auto tensor = at::empty(sizes, kDtypes.at(parts.at(1)));
    file.read(bytes_of(tensor), static_cast<std::streamsize>(tensor.nbytes()));
    tensors.emplace(parts.at(0), std::move(tensor));
  }
  return tensors;
}

}  // namespace lockstep::parity
