// Reads the pickle inside of a checkpoint, and executes nothing.
//
// Opcodes are those that torch.save writes (protocol 2); names are those of symbols.h. What
// Python would call is built here, or is an error.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lockstep/checkpoint/value.h"

namespace lockstep::checkpoint {

// A storage as the pickle names it.
struct StorageName {
  std::string key;
  std::string location;
  std::size_t bytes = 0;
};
// Throws IoError if there is no such storage, or one of another size.
using FindStorage = std::function<std::shared_ptr<const Storage>(const StorageName&)>;

// Depth, memory and the extents of tensors are checked before they are used. Throws IoError with
// `name`, what was found instead of what, and the offset; `first` is where the pickle lies in the
// file.
Value read_pickle(const std::string& name, std::span<const std::byte> pickle,
                  const FindStorage& find_storage, std::size_t first = 0);

}  // namespace lockstep::checkpoint
