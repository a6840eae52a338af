// Reads numbers from bytes of a file, and says where when there are too few.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"

namespace lockstep::checkpoint {

// The file is not damaged, but of a format that is not read here. Callers see an IoError; what
// looks for a sound file does not pass over this one.
class OtherFormat : public IoError {
 public:
  using IoError::IoError;
};

// Text of a file as a message can have it: what() would end at a NUL byte, and a terminal obeys
// others.
inline std::string in_message(std::string_view text) { return printable(text, "", "?"); }

// Throws IoError "'FILE' WHAT, at byte N".
[[noreturn]] void fail_at(const std::string& file, const std::string& what, std::uint64_t offset);

// Numbers are little-endian. Throws IoError "NAME: WHAT at byte N" where `bytes` end too early.
class Cursor {
 public:
  // `first` is where `bytes` lie in the file.
  Cursor(std::string name, std::span<const std::byte> bytes, std::size_t first = 0)
      : name_(std::move(name)), bytes_(bytes), first_(first) {}

  std::span<const std::byte> take(std::uint64_t count, std::string_view what);
  std::string_view text(std::uint64_t count, std::string_view what);
  // Up to the next line feed, which is passed.
  std::string_view line(std::string_view what);
  std::uint64_t number(int bytes, std::string_view what);

  [[nodiscard]] std::size_t offset() const { return first_ + at_; }  // In the file.
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
  std::size_t first_;
  std::size_t at_ = 0;
};

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace lockstep::checkpoint
