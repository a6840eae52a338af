// What a checkpoint says, whichever file it is in: dictionaries, lists, numbers, text and tensors.
//
// A tensor is a view of a storage, as in torch: bytes that may be part of the file that was read,
// or a copy of what training has. Values own what they show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::checkpoint {

enum class DType : std::uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt8,
  kBool,
  kComplex64,
  kComplex128,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat8E4M3fn,
  kFloat8E5M2,
  kFloat8E4M3fnuz,
  kFloat8E5M2fnuz,
  kFloat8E8M0fnu,
  kFloat4E2M1fnX2,
  kComplex32,
};

struct DTypeInfo {
  DType dtype;
  std::size_t bytes;
  std::string_view name;         // torch's, such as "float32".
  std::string_view storage;      // The class in a pickle; empty: torch pickles it without one.
  std::string_view safetensors;  // Empty: that format has no such type.
};
std::span<const DTypeInfo> dtypes();
const DTypeInfo& info(DType dtype);

struct Storage {
  std::span<const std::byte> bytes;
  std::string location = "cpu";  // The device it was saved from, e.g. "cuda:0".
  std::shared_ptr<const void> owner;
};

struct Tensor {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // In elements, as the offset.
  std::int64_t offset = 0;
  bool requires_grad = false;
  std::shared_ptr<const Storage> storage;
  // The elements are the conjugates, or the negatives, of what the storage has, as torch saves the
  // lazy result of conj().
  bool is_conj = false;
  bool is_neg = false;
};

// Counts a tensor's elements; nothing if a size is negative, or the product of those that are not 0
// does not fit: then no strides would, either.
std::optional<std::int64_t> count_elements(std::span<const std::int64_t> sizes);
std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> sizes);
// The bytes of a tensor whose elements lie in one piece and in order; nothing for others, and for
// those that are conjugates or negatives of their bytes.
std::optional<std::span<const std::byte>> contiguous_bytes(const Tensor& tensor);
// Why the tensor does not lie inside of its storage; empty if it does.
std::string extent_fault(const Tensor& tensor);

class Value;
struct Entry;
using List = std::vector<Value>;
using Dict = std::vector<Entry>;  // In the order of the file.
struct Tuple {
  List items;
};
struct Bytes {
  std::string content;
};
// How often each number is there, as MultiStepLR has its milestones: Python's collections.Counter.
struct Counter {
  std::vector<std::pair<std::int64_t, std::int64_t>> counts;
};
// Something that is only shown: {"torch.device", "cuda:0"}, {"torch.dtype", "float16"}.
struct Other {
  std::string type;
  std::string text;
};

// A tensor that is only shown: "sparse", "quantized" or "meta".
struct OtherTensor {
  std::string kind;
  std::string advice;  // What its owner can save instead.
};

class Value {
 public:
  using Data = std::variant<std::monostate, bool, std::int64_t, double, std::string, Bytes, Other,
                            List, Tuple, Dict, Tensor, Counter, OtherTensor>;

  Value();  // Python's None.
  Value(bool value);
  Value(int value);
  Value(std::int64_t value);
  Value(double value);
  Value(std::string value);
  Value(const char* value);
  Value(Bytes value);
  Value(Other value);
  Value(List value);
  Value(Tuple value);
  Value(Dict value);
  Value(Tensor value);
  Value(Counter value);
  Value(OtherTensor value);

  [[nodiscard]] const Data& data() const { return data_; }
  // Null if it is of another kind.
  template <class T>
  [[nodiscard]] const T* get_if() const {
    return std::get_if<T>(&data_);
  }
  [[nodiscard]] bool is_none() const { return std::holds_alternative<std::monostate>(data_); }
  // The value of this key; null if this is no dictionary or has no such key.
  [[nodiscard]] const Value* find(std::string_view key) const;

 private:
  Data data_;
};

struct Entry {
  Value key;
  Value value;
};

// "a dictionary", "a tensor" and so on, for messages.
std::string_view kind_of(const Value& value);

// The path of the first tensor in this storage, such as "model.conv1.weight"; empty if there is
// none.
std::string name_of_storage(const Value& root, const Storage& storage);

}  // namespace lockstep::checkpoint
