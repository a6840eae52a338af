// safetensors files: a JSON header with names, types and places, and then the bytes of the tensors.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "lockstep/checkpoint/value.h"
#include "lockstep/checkpoint/zip/writer.h"

namespace lockstep::checkpoint {

// A dictionary of tensors, and "__metadata__", a dictionary of text, if the file has one. Throws
// IoError that names the tensor and the offset if the bytes are not exactly those of the tensors.
Value read_safetensors(const std::string& file, std::span<const std::byte> bytes,
                       const std::shared_ptr<const void>& owner);

// Throws UsageError if `root` is no dictionary of contiguous tensors with text as keys (and
// "__metadata__"), or has a type that the format has not.
void write_safetensors(const Value& root, const Sink& sink);

// Whether the bytes can be such a file: a length, and a brace behind it.
bool looks_like_safetensors(std::span<const std::byte> bytes);

}  // namespace lockstep::checkpoint
