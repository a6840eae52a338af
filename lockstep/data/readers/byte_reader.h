// Reads a file from front to back; a gzip file is unpacked on the way.
//
// Nothing is trusted and little is held: memory does not grow with the file, and damage, a cut end
// or something behind the end of gzip data is an IoError that names the place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lockstep/base/fd.h"

namespace lockstep::data {

class ByteReader {
 public:
  // Throws IoError naming the path.
  explicit ByteReader(std::string path);
  ~ByteReader();
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  // Fills `out`; returns less than its size only at the end of the file, and by then has checked
  // the checksum of gzip data. Throws IoError.
  std::size_t read(std::span<std::byte> out);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }  // In the unpacked bytes.
  [[nodiscard]] bool is_gzip() const { return inflater_ != nullptr; }

 private:
  class Inflater;

  bool refill();
  std::size_t copy(std::span<std::byte> out);
  std::size_t unpack(std::span<std::byte> out);
  [[noreturn]] void refuse(const std::string& what) const;

  std::string path_;
  UniqueFd file_;
  std::unique_ptr<std::byte[]> block_;
  std::span<std::byte> input_;      // What of the block is unread.
  std::uint64_t input_offset_ = 0;  // Where input_ ends in the file.
  std::uint64_t offset_ = 0;
  std::unique_ptr<Inflater> inflater_;
};

// All of a file, unpacked. Throws IoError naming the path.
std::string read_text(const std::string& path);

}  // namespace lockstep::data
