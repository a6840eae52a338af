// Writes what torch.load(weights_only=True) reads, byte for byte as torch.save writes it.
#pragma once

#include <functional>
#include <string>

#include "lockstep/checkpoint/value.h"

namespace lockstep::checkpoint {

// The key of a storage: asked once for each tensor, in the order of the pickle.
using KeyOf = std::function<std::string(const Tensor&)>;

// Throws UsageError if there is text that is no UTF-8, or a symbol that has no way back into
// Python.
std::string write_pickle(const Value& root, const KeyOf& key_of);

}  // namespace lockstep::checkpoint
