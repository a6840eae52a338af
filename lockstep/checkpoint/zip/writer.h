// Writes zip archives byte for byte as torch.save does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

// Takes the next bytes of a file; throws if it cannot.
using Sink = std::function<void(std::span<const std::byte>)>;

// Records are stored, and begin at multiples of 64 bytes, so that a mapped file has aligned
// tensors.
class ZipWriter {
 public:
  ZipWriter(Sink sink, std::string folder) : sink_(std::move(sink)), folder_(std::move(folder)) {}

  void add(std::string_view record, std::span<const std::byte> bytes);
  // The directory and the end records, which say that a comment of this length follows.
  void finish(std::uint16_t comment_bytes);
  // Behind the end: the comment that was announced.
  void comment(std::string_view text);

  [[nodiscard]] std::uint64_t bytes() const { return written_; }  // So far.
  [[nodiscard]] std::uint32_t crc32c() const { return crc32c_; }  // The sum of these bytes.

 private:
  struct Entry {
    std::string path;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;
    std::uint32_t crc32 = 0;
  };

  void write(std::span<const std::byte> bytes);

  Sink sink_;
  std::string folder_;
  std::vector<Entry> entries_;
  std::uint64_t written_ = 0;
  std::uint32_t crc32c_ = 0;
};

}  // namespace lockstep::checkpoint
