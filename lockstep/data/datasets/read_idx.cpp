#include "lockstep/data/datasets/read_idx.h"

#include <ATen/ops/from_blob.h>

#include <memory>
#include <utility>

#include "lockstep/data/readers/idx.h"

namespace lockstep::data {
namespace {

at::ScalarType scalar_type(IdxType type) {
  switch (type) {
    case IdxType::kUint8:
      return at::kByte;
    case IdxType::kInt8:
      return at::kChar;
    case IdxType::kInt16:
      return at::kShort;
    case IdxType::kInt32:
      return at::kInt;
    case IdxType::kFloat32:
      return at::kFloat;
    case IdxType::kFloat64:
      return at::kDouble;
  }
  return at::ScalarType::Undefined;  // load_idx() lets no other type pass.
}

}  // namespace

at::Tensor read_idx(const std::string& path) {
  auto array = std::make_shared<IdxArray>(load_idx(path));
  return at::from_blob(
      array->bytes.data(), array->sizes, [array](void*) {},
      at::TensorOptions(scalar_type(array->type)));
}

}  // namespace lockstep::data
