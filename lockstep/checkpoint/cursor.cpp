#include "lockstep/checkpoint/cursor.h"

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

void fail_at(const std::string& file, const std::string& what, std::uint64_t offset) {
  throw IoError("'" + file + "' " + in_message(what) + ", at byte " + std::to_string(offset));
}

std::span<const std::byte> Cursor::take(std::uint64_t count, std::string_view what) {
  if (count > left()) {
    fail("needs " + std::to_string(count) + " bytes for " + std::string(what) + ", has " +
         std::to_string(left()));
  }
  const auto taken = bytes_.subspan(at_, count);
  at_ += count;
  return taken;
}

std::string_view Cursor::text(std::uint64_t count, std::string_view what) {
  return as_text(take(count, what));
}

std::string_view Cursor::line(std::string_view what) {
  const auto rest = as_text(bytes_.subspan(at_));
  const auto end = rest.find('\n');
  if (end == std::string_view::npos) {
    fail("has no end of line after " + std::string(what));
  }
  at_ += end + 1;
  return rest.substr(0, end);
}

std::uint64_t Cursor::number(int bytes, std::string_view what) {
  std::uint64_t number = 0;
  int shift = 0;
  for (const std::byte byte : take(static_cast<std::uint64_t>(bytes), what)) {
    number |= std::to_integer<std::uint64_t>(byte) << shift;
    shift += 8;
  }
  return number;
}

void Cursor::fail(const std::string& what) const {
  throw IoError(name_ + " " + in_message(what) + ", at byte " + std::to_string(offset()));
}

}  // namespace lockstep::checkpoint
