// Opens any checkpoint file and says which format it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/checkpoint/value.h"

namespace lockstep::checkpoint {

enum class Format : std::uint8_t { kLockstep, kTorch, kSafetensors };
std::string_view name_of(Format format);

struct Document {
  Value root;
  Format format = Format::kTorch;
  std::size_t bytes = 0;               // The file's size.
  std::span<const std::byte> content;  // The file's bytes, as they were checked.
  std::shared_ptr<const void> owner;   // Owns these bytes.
};

// The whole file is read; tensors share its memory. Throws IoError: the file cannot be read, is
// damaged, or is of the old format that torch.save wrote until 1.5, which it says how to convert.
// A link in place of the file is not followed.
Document read_checkpoint(const std::string& path);
// As read_checkpoint() of a file in this folder, and no error if the file is missing or damaged:
// then there is no document, and `reason` says why.
struct SoundDocument {
  std::optional<Document> document;
  std::string reason;
};
struct OpenFolder {
  int descriptor;
  const std::string& path;  // For messages.
};
SoundDocument read_if_sound(const OpenFolder& folder, const std::string& name);
// read_checkpoint() of bytes in memory, which must outlive the document.
Document read_document(const std::string& file, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> owner = {});

}  // namespace lockstep::checkpoint
