// Files for tests of those who read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep::data {

void write_file(const std::string& path, std::string_view content);

// One gzip member.
std::string gzip(std::string_view content);

// The header of an idx file with elements of `type`, e.g. 8 for bytes.
std::string idx_header(std::uint8_t type, const std::vector<std::uint32_t>& sizes);

std::span<const std::byte> file_bytes(std::string_view content);

// A file that lies in memory and has a path while this object lives.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content);
  [[nodiscard]] std::string path() const;

 private:
  UniqueFd file_;
};

}  // namespace lockstep::data
