// Files for tests of those who read them.
#pragma once

#include <sys/resource.h>

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

// While it lives, this process can open no more files. A sanitizer cannot look at types that it
// has not seen before then: matchers are to be used outside.
class NoMoreFiles {
 public:
  NoMoreFiles();
  ~NoMoreFiles();
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

}  // namespace lockstep::data
