// Reads a checkpoint's dictionary key by key, for from_value(); what was not read is left over.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/checkpoint/read.h"
#include "lockstep/checkpoint/value.h"
#include "lockstep/train/checkpoint/map_location.h"
#include "lockstep/train/checkpoint/state_dict.h"
#include "lockstep/train/checkpoint/tensor_value.h"

namespace lockstep {

// What it is given outlives it.
class KeyReader {
 public:
  struct Source {
    const std::string& file;
    checkpoint::Format format;
  };
  KeyReader(const Source& source, const checkpoint::Dict& root, const MapLocation& map_location)
      : source_(source), root_(root), map_location_(map_location) {}

  // Null if the key is not there, or None.
  const checkpoint::Value* get(const std::string& key) {
    for (const checkpoint::Entry& entry : root_) {
      const auto* name = entry.key.get_if<std::string>();
      if (name != nullptr && *name == key) {
        known_.push_back(&entry);
        return entry.value.is_none() ? nullptr : &entry.value;
      }
    }
    return nullptr;
  }

  template <class T>
  const T* get_if(const std::string& key, const char* expected) {
    const checkpoint::Value* const value = get(key);
    const T* const typed = value == nullptr ? nullptr : value->get_if<T>();
    if (value != nullptr && typed == nullptr) {
      refuse(key, *value, expected);
    }
    return typed;
  }

  StateDict state(const std::string& key) {
    const checkpoint::Value* const value = get(key);
    const auto* dict = value == nullptr ? nullptr : value->get_if<checkpoint::Dict>();
    if (value != nullptr && dict == nullptr) {
      fail(key, *value, "a dictionary of tensors");
    }
    return dict == nullptr ? StateDict() : state(*dict, key);
  }

  // A module's own extra state has no place in a model here, and is left out.
  StateDict state(const checkpoint::Dict& dict, const std::string& key) {
    StateDict result;
    for (const checkpoint::Entry& entry : dict) {
      const auto* name = entry.key.get_if<std::string>();
      const auto* value = entry.value.get_if<checkpoint::Tensor>();
      if (value == nullptr && name != nullptr && name->ends_with("_extra_state")) {
        continue;
      }
      if (const auto* other = entry.value.get_if<checkpoint::OtherTensor>()) {
        fail(key, name == nullptr ? "?" : *name, *other);
      }
      if (name == nullptr || value == nullptr) {
        fail(name == nullptr ? key : key + "." + *name, entry.value, "a tensor with a name");
      }
      result.emplace_back(*name, tensor(key.empty() ? *name : key + "." + *name, *value));
    }
    return result;
  }

  [[nodiscard]] at::Tensor tensor(const std::string& key, const checkpoint::Tensor& value) const {
    try {
      return to_tensor(value, map_location_);
    } catch (const UsageError& error) {
      throw UsageError("'" + source_.file + "': '" + key + "': " + error.what());
    }
  }

  // Reads a list or a tuple.
  template <class T>
  std::vector<T> list(const std::string& key, const char* expected) {
    const checkpoint::Value* const value = get(key);
    const auto* tuple = value == nullptr ? nullptr : value->get_if<checkpoint::Tuple>();
    const auto* items = tuple != nullptr
                            ? &tuple->items
                            : (value == nullptr ? nullptr : value->get_if<checkpoint::List>());
    if (value != nullptr && items == nullptr) {
      refuse(key, *value, expected);
    }
    std::vector<T> result;
    for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
      const auto item = item_of<T>((*items)[i]);
      if (!item) {
        refuse(key, (*items)[i], expected);
        return {};
      }
      result.push_back(*item);
    }
    return result;
  }

  // What another program calls by this name means nothing here; in a file of ours it is an error.
  void refuse(const std::string& key, const checkpoint::Value& value, const char* expected) {
    if (source_.format == checkpoint::Format::kLockstep) {
      fail(key, value, expected);
    }
    leave_to_caller(key);
  }
  void refuse(const std::string& key, const IoError& error) {
    if (source_.format == checkpoint::Format::kLockstep) {
      throw IoError("'" + source_.file + "': " + error.what());
    }
    leave_to_caller(key);
  }

  checkpoint::Dict others() {
    checkpoint::Dict rest;
    for (const checkpoint::Entry& entry : root_) {
      if (std::ranges::find(known_, &entry) == known_.end()) {
        rest.push_back(entry);
      }
    }
    return rest;
  }

  [[noreturn]] void fail(const std::string& key, const std::string& name,
                         const checkpoint::OtherTensor& tensor) const {
    const std::string path = key.empty() ? name : key + "." + name;
    throw IoError("'" + source_.file + "': '" + printable(path, "", "?") + "' is a " + tensor.kind +
                  " tensor, expected a dense one; save " + tensor.advice + " in Python");
  }
  [[noreturn]] void fail(const std::string& key, const checkpoint::Value& value,
                         const char* expected) const {
    throw IoError("'" + source_.file + "': '" + printable(key, "", "?") + "' is " +
                  std::string(kind_of(value)) + ", expected " + expected);
  }

  [[nodiscard]] const std::string& file() const { return source_.file; }

 private:
  void leave_to_caller(const std::string& key) {
    std::erase_if(known_, [&](const checkpoint::Entry* entry) {
      return *entry->key.get_if<std::string>() == key;
    });
  }

  // Python has 1 where a number is meant.
  template <class T>
  static std::optional<T> item_of(const checkpoint::Value& value) {
    if constexpr (std::is_same_v<T, double>) {
      if (const auto* integer = value.get_if<std::int64_t>()) {
        return static_cast<double>(*integer);
      }
    }
    const T* const item = value.get_if<T>();
    return item == nullptr ? std::nullopt : std::optional<T>(*item);
  }

  Source source_;
  const checkpoint::Dict& root_;
  const MapLocation& map_location_;
  std::vector<const checkpoint::Entry*> known_;
};

}  // namespace lockstep
