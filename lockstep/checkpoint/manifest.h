// How a file of ours can be told from a damaged one: a record with a sum for each other record, and
// a comment at the end of the file with the sum of all that is before it.
//
// docs/internals/checkpoint_format.md shows both.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lockstep/checkpoint/zip/reader.h"

namespace lockstep::checkpoint {

inline constexpr std::string_view kManifest = ".lockstep/manifest";
inline constexpr std::size_t kEndCommentBytes = 24;

class Manifest {
 public:
  Manifest();
  void add(std::string_view record, std::span<const std::byte> bytes);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string end_comment(std::uint32_t crc32c);

// Throws IoError unless the file is whole: records have the sums of the zip, those of the manifest
// if there is one, and then the end comment must be right, too. `tensor_of` says which tensor is in
// a record, for messages. A file without a manifest, as torch.save writes it, has no end comment.
void check_whole(const std::string& file, const ZipFile& zip, std::span<const std::byte> bytes,
                 const std::function<std::string(const ZipRecord&)>& tensor_of);

}  // namespace lockstep::checkpoint
