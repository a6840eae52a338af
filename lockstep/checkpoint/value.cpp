#include "lockstep/checkpoint/value.h"

#include <array>

namespace lockstep::checkpoint {
namespace {

// In the order of the enumeration.
constexpr std::array kDTypes = {
    DTypeInfo{DType::kFloat32, 4, "float32", "FloatStorage", "F32"},
    DTypeInfo{DType::kFloat64, 8, "float64", "DoubleStorage", "F64"},
    DTypeInfo{DType::kFloat16, 2, "float16", "HalfStorage", "F16"},
    DTypeInfo{DType::kBFloat16, 2, "bfloat16", "BFloat16Storage", "BF16"},
    DTypeInfo{DType::kInt64, 8, "int64", "LongStorage", "I64"},
    DTypeInfo{DType::kInt32, 4, "int32", "IntStorage", "I32"},
    DTypeInfo{DType::kInt16, 2, "int16", "ShortStorage", "I16"},
    DTypeInfo{DType::kInt8, 1, "int8", "CharStorage", "I8"},
    DTypeInfo{DType::kUInt8, 1, "uint8", "ByteStorage", "U8"},
    DTypeInfo{DType::kBool, 1, "bool", "BoolStorage", "BOOL"},
    DTypeInfo{DType::kComplex64, 8, "complex64", "ComplexFloatStorage", "C64"},
    DTypeInfo{DType::kComplex128, 16, "complex128", "ComplexDoubleStorage", ""},
    DTypeInfo{DType::kUInt16, 2, "uint16", "", "U16"},
    DTypeInfo{DType::kUInt32, 4, "uint32", "", "U32"},
    DTypeInfo{DType::kUInt64, 8, "uint64", "", "U64"},
    DTypeInfo{DType::kFloat8E4M3fn, 1, "float8_e4m3fn", "", "F8_E4M3"},
    DTypeInfo{DType::kFloat8E5M2, 1, "float8_e5m2", "", "F8_E5M2"},
    DTypeInfo{DType::kFloat8E4M3fnuz, 1, "float8_e4m3fnuz", "", "F8_E4M3FNUZ"},
    DTypeInfo{DType::kFloat8E5M2fnuz, 1, "float8_e5m2fnuz", "", "F8_E5M2FNUZ"},
    DTypeInfo{DType::kFloat8E8M0fnu, 1, "float8_e8m0fnu", "", "F8_E8M0"},
    DTypeInfo{DType::kFloat4E2M1fnX2, 1, "float4_e2m1fn_x2", "", ""},
    DTypeInfo{DType::kComplex32, 4, "complex32", "", ""},
};

std::string key_text(const Value& key) {
  if (const auto* text = key.get_if<std::string>()) {
    return *text;
  }
  if (const auto* number = key.get_if<std::int64_t>()) {
    return std::to_string(*number);
  }
  return "?";
}

std::string find_storage(const Value& value, const Storage& storage, const std::string& path) {
  if (const auto* tensor = value.get_if<Tensor>()) {
    return tensor->storage.get() == &storage ? path : "";
  }
  const std::string before = path.empty() ? "" : path + ".";
  if (const auto* dict = value.get_if<Dict>()) {
    for (const Entry& entry : *dict) {
      auto found = find_storage(entry.value, storage, before + key_text(entry.key));
      if (!found.empty()) {
        return found;
      }
    }
    return "";
  }
  const auto* tuple = value.get_if<Tuple>();
  const auto* list = tuple != nullptr ? &tuple->items : value.get_if<List>();
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    auto found = find_storage((*list)[i], storage, before + std::to_string(i));
    if (!found.empty()) {
      return found;
    }
  }
  return "";
}

}  // namespace

std::span<const DTypeInfo> dtypes() { return kDTypes; }

const DTypeInfo& info(DType dtype) { return kDTypes.at(static_cast<std::size_t>(dtype)); }

std::optional<std::int64_t> count_elements(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  bool is_empty = false;
  for (const std::int64_t size : sizes) {
    is_empty = is_empty || size == 0;
    if (size < 0 || (size > 0 && __builtin_mul_overflow(count, size, &count))) {
      return std::nullopt;
    }
  }
  return is_empty ? 0 : count;
}

std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= sizes[i] > 1 ? sizes[i] : 1;
  }
  return strides;
}

std::optional<std::span<const std::byte>> contiguous_bytes(const Tensor& tensor) {
  const auto count = count_elements(tensor.sizes);
  if (!count || tensor.is_conj || tensor.is_neg || !extent_fault(tensor).empty()) {
    return std::nullopt;
  }
  const std::size_t bytes = info(tensor.dtype).bytes;
  if (*count == 0) {
    return std::span<const std::byte>();
  }
  std::int64_t expected = 1;
  for (std::size_t i = tensor.sizes.size(); i-- > 0;) {
    if (tensor.sizes[i] != 1 && tensor.strides[i] != expected) {
      return std::nullopt;
    }
    expected *= tensor.sizes[i];
  }
  return tensor.storage->bytes.subspan(static_cast<std::size_t>(tensor.offset) * bytes,
                                       static_cast<std::size_t>(*count) * bytes);
}

std::string extent_fault(const Tensor& tensor) {
  if (tensor.sizes.size() != tensor.strides.size()) {
    return "has " + std::to_string(tensor.sizes.size()) + " sizes and " +
           std::to_string(tensor.strides.size()) + " strides";
  }
  const auto count = count_elements(tensor.sizes);
  if (!count) {
    return "has a negative size, or more elements than a number can count";
  }
  if (tensor.offset < 0) {
    return "begins before its storage";
  }
  std::int64_t last = tensor.offset;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    std::int64_t reach = 0;
    if (tensor.strides[i] < 0) {
      return "has a negative stride";
    }
    if (*count > 0 && (__builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &reach) ||
                       __builtin_add_overflow(last, reach, &last))) {
      return "reaches further than a number can count";
    }
  }
  const auto held =
      static_cast<std::int64_t>(tensor.storage->bytes.size() / info(tensor.dtype).bytes);
  const std::int64_t end = *count == 0 ? 0 : last;
  if (*count > 0 && end >= held) {
    return "reaches element " + std::to_string(end) + " of a storage of " + std::to_string(held);
  }
  return "";
}

Value::Value() = default;
Value::Value(bool value) : data_(value) {}
Value::Value(int value) : data_(std::int64_t{value}) {}
Value::Value(std::int64_t value) : data_(value) {}
Value::Value(double value) : data_(value) {}
Value::Value(std::string value) : data_(std::move(value)) {}
Value::Value(const char* value) : data_(std::string(value)) {}
Value::Value(Bytes value) : data_(std::move(value)) {}
Value::Value(Other value) : data_(std::move(value)) {}
Value::Value(List value) : data_(std::move(value)) {}
Value::Value(Tuple value) : data_(std::move(value)) {}
Value::Value(Dict value) : data_(std::move(value)) {}
Value::Value(Tensor value) : data_(std::move(value)) {}
Value::Value(Counter value) : data_(std::move(value)) {}
Value::Value(OtherTensor value) : data_(std::move(value)) {}

const Value* Value::find(std::string_view key) const {
  const auto* dict = get_if<Dict>();
  for (std::size_t i = 0; dict != nullptr && i < dict->size(); ++i) {
    const auto* text = (*dict)[i].key.get_if<std::string>();
    if (text != nullptr && *text == key) {
      return &(*dict)[i].value;
    }
  }
  return nullptr;
}

std::string_view kind_of(const Value& value) {
  constexpr std::array<std::string_view, std::variant_size_v<Value::Data>> kKinds = {
      "None",
      "a flag",
      "an integer",
      "a number",
      "text",
      "bytes",
      "a symbol",
      "a list",
      "a tuple",
      "a dictionary",
      "a tensor",
      "a counter",
      "a tensor that is not dense"};
  return kKinds.at(value.data().index());
}

std::string name_of_storage(const Value& root, const Storage& storage) {
  return find_storage(root, storage, "");
}

}  // namespace lockstep::checkpoint
