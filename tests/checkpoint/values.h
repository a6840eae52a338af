// Checkpoints for tests, and their bytes.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/checkpoint/cursor.h"
#include "lockstep/checkpoint/pt_file.h"
#include "lockstep/checkpoint/value.h"

namespace lockstep::checkpoint {

inline std::shared_ptr<const Storage> storage_of(std::string_view content) {
  auto owner = std::make_shared<std::string>(content);
  const auto bytes = as_bytes(*owner);
  return std::make_shared<Storage>(Storage{bytes, "cpu", std::move(owner)});
}

inline Tensor tensor_of(const std::vector<float>& numbers) {
  std::string content(numbers.size() * 4, '\0');
  if (!numbers.empty()) {
    std::memcpy(content.data(), numbers.data(), content.size());
  }
  Tensor tensor;
  tensor.sizes = {static_cast<std::int64_t>(numbers.size())};
  tensor.strides = {1};
  tensor.storage = storage_of(content);
  return tensor;
}

// {"model": {"weight": [1, 2, 3], "bias": [4]}, "epoch": 3, "args": {"lr": 0.1}}
inline Value small_checkpoint(float first = 1) {
  return Dict{{"model", Dict{{"weight", tensor_of({first, 2, 3})}, {"bias", tensor_of({4})}}},
              {"epoch", 3},
              {"args", Dict{{"lr", 0.1}}}};
}

inline std::string pt_bytes(const Value& root, const PtOptions& options = {}) {
  std::string content;
  write_pt(root, [&](std::span<const std::byte> bytes) { content += as_text(bytes); }, options);
  return content;
}

// A file of seeds/.
inline std::string seed(const std::string& name) {
  return read_file(LOCKSTEP_CHECKPOINT_SEEDS "/" + name);
}

inline std::vector<float> floats(const Value* value) {
  const auto* tensor = value == nullptr ? nullptr : value->get_if<Tensor>();
  const auto bytes = tensor == nullptr ? std::nullopt : contiguous_bytes(*tensor);
  std::vector<float> numbers(bytes ? bytes->size() / 4 : 0);
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), bytes->data(), bytes->size());
  }
  return numbers;
}

}  // namespace lockstep::checkpoint
