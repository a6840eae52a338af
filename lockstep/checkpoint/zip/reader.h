// Zip archives as torch.save writes them: records that are stored as they are, in one folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

struct ZipRecord {
  std::string_view name;  // Without the folder.
  std::span<const std::byte> bytes;
  std::size_t offset = 0;  // Where the bytes are in the file.
  std::uint32_t crc32 = 0;
};

// Shows the bytes that it was read from, which must live as long.
struct ZipFile {
  std::string_view folder;
  std::vector<ZipRecord> records;  // By offset.
  std::string_view comment;

  // Null if there is none.
  [[nodiscard]] const ZipRecord* find(std::string_view record) const;
};

// Checks the structure: records lie in the file, do not overlap, and have one name each, which both
// of their headers say. Sums are not checked. Throws IoError that names the record and the offset.
ZipFile read_zip(const std::string& file, std::span<const std::byte> bytes);

// Whether the record is what its sum says.
bool is_sound(const ZipRecord& record);

}  // namespace lockstep::checkpoint
