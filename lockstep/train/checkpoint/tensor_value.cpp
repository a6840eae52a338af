#include "lockstep/train/checkpoint/tensor_value.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using checkpoint::DType;

constexpr std::array kTypes = {
    std::pair(DType::kFloat32, at::kFloat),
    std::pair(DType::kFloat64, at::kDouble),
    std::pair(DType::kFloat16, at::kHalf),
    std::pair(DType::kBFloat16, at::kBFloat16),
    std::pair(DType::kInt64, at::kLong),
    std::pair(DType::kInt32, at::kInt),
    std::pair(DType::kInt16, at::kShort),
    std::pair(DType::kInt8, at::kChar),
    std::pair(DType::kUInt8, at::kByte),
    std::pair(DType::kBool, at::kBool),
    std::pair(DType::kComplex64, at::kComplexFloat),
    std::pair(DType::kComplex128, at::kComplexDouble),
    std::pair(DType::kUInt16, at::kUInt16),
    std::pair(DType::kUInt32, at::kUInt32),
    std::pair(DType::kUInt64, at::kUInt64),
    std::pair(DType::kFloat8E4M3fn, at::kFloat8_e4m3fn),
    std::pair(DType::kFloat8E5M2, at::kFloat8_e5m2),
    std::pair(DType::kFloat8E4M3fnuz, at::kFloat8_e4m3fnuz),
    std::pair(DType::kFloat8E5M2fnuz, at::kFloat8_e5m2fnuz),
    std::pair(DType::kFloat8E8M0fnu, at::kFloat8_e8m0fnu),
    std::pair(DType::kFloat4E2M1fnX2, at::kFloat4_e2m1fn_x2),
    std::pair(DType::kComplex32, at::kComplexHalf),
};

DType dtype_of(const at::Tensor& tensor) {
  for (const auto& [ours, torchs] : kTypes) {
    if (torchs == tensor.scalar_type()) {
      return ours;
    }
  }
  throw UsageError(std::string("checkpoint: a tensor of type ") +
                   c10::toString(tensor.scalar_type()) + " cannot be saved");
}

at::ScalarType scalar_type(DType dtype) {
  return kTypes.at(static_cast<std::size_t>(dtype)).second;
}

constexpr std::size_t kAlignment = 64;

at::Tensor on_cpu(const checkpoint::Tensor& tensor) {
  const auto& storage = tensor.storage;
  const std::size_t element = checkpoint::info(tensor.dtype).bytes;
  const auto options = at::TensorOptions(scalar_type(tensor.dtype));
  const auto* start = storage->bytes.data();
  if (checkpoint::count_elements(tensor.sizes).value_or(0) == 0) {
    return at::empty(tensor.sizes, options);
  }
  if (reinterpret_cast<std::uintptr_t>(start) % element != 0) {
    // A safetensors file may have them anywhere. The storage is copied, views fit then as before.
    const auto bytes = at::empty({static_cast<std::int64_t>(storage->bytes.size())}, at::kByte);
    std::memcpy(bytes.data_ptr(), start, storage->bytes.size());
    auto* const first = static_cast<std::byte*>(bytes.data_ptr()) +
                        static_cast<std::size_t>(tensor.offset) * element;
    return at::from_blob(first, tensor.sizes, tensor.strides, [bytes](void*) {}, options);
  }
  auto* const first =
      const_cast<std::byte*>(start) + static_cast<std::size_t>(tensor.offset) * element;
  return at::from_blob(first, tensor.sizes, tensor.strides, [storage](void*) {}, options);
}

}  // namespace

at::Tensor to_tensor(const checkpoint::Tensor& tensor, const MapLocation& map_location) {
  const auto& storage = tensor.storage;
  const at::Device device = map_location(storage->location);
  if (device.is_meta()) {
    throw UsageError("checkpoint: a tensor that was saved from '" + storage->location +
                     "' cannot go to 'meta', where tensors have no contents; give a map_location, "
                     "such as \"cpu\"");
  }
  try {
    at::Tensor result = on_cpu(tensor).to(device);
    if (tensor.is_conj) {
      result = at::_conj(result);
    }
    if (tensor.is_neg) {
      result = at::_neg_view(result);
    }
    return result.set_requires_grad(tensor.requires_grad && result.is_floating_point());
  } catch (const c10::Error& error) {
    throw UsageError("checkpoint: a tensor that was saved from '" + storage->location +
                     "' cannot go to '" + device.str() + "' (" + error.what_without_backtrace() +
                     "); give a map_location, such as \"cpu\"");
  }
}

checkpoint::Tensor Snapshot::take(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_quantized() ||
      tensor.is_meta()) {
    throw UsageError(
        "checkpoint: only dense tensors can be saved, and one is undefined, sparse, quantized or "
        "on 'meta'");
  }
  const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg();
  const DType dtype = dtype_of(plain);
  const auto* const impl = plain.storage().unsafeGetStorageImpl();
  const auto [found, is_new] = numbers_.try_emplace(impl, parts_.size());
  if (!is_new && parts_[found->second].tensor.scalar_type() != plain.scalar_type()) {
    throw UsageError(std::string("checkpoint: one storage is shown as ") +
                     c10::toString(parts_[found->second].tensor.scalar_type()) + " and as " +
                     c10::toString(plain.scalar_type()) +
                     ", which torch.save refuses, too; save a clone() of one");
  }
  if (is_new) {
    // Whole elements: torch counts a storage in them, and no tensor shows what is behind.
    const std::size_t element = plain.element_size();
    Part part{plain, std::make_shared<checkpoint::Storage>(), bytes_,
              plain.storage().nbytes() / element * element};
    part.storage->location = plain.device().str();
    bytes_ += (part.bytes + kAlignment - 1) / kAlignment * kAlignment;
    parts_.push_back(std::move(part));
  }
  return {dtype,
          plain.sizes().vec(),
          plain.strides().vec(),
          plain.storage_offset(),
          tensor.requires_grad(),
          parts_[found->second].storage};
}

void Snapshot::copy_to(const std::shared_ptr<void>& block) {
  const at::NoGradGuard no_grad;
  for (Part& part : parts_) {
    auto* const to = static_cast<std::byte*>(block.get()) + part.offset;
    const auto count = static_cast<std::int64_t>(part.bytes);
    if (part.tensor.is_cpu() && count > 0) {
      // Not copy_(): its threads wait for each other, for each tensor, where cores are busy.
      std::memcpy(to, part.tensor.storage().data(), part.bytes);
    } else if (count > 0) {
      auto from = at::empty({0}, part.tensor.options().dtype(at::kByte).requires_grad(false));
      from.set_(part.tensor.storage(), 0, {count}, {1});
      at::from_blob(to, {count}, at::kByte).copy_(from);
    }
    part.storage->bytes = {to, part.bytes};
    part.storage->owner = block;
  }
}

}  // namespace lockstep
