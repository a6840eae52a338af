#include "lockstep/base/text/utf8.h"

#include <cstdint>

namespace lockstep {
namespace {

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Bytes of the character that begins the text; 0 if none does.
std::size_t character_length(std::string_view text, Surrogates surrogates) {
  const unsigned char first = byte_at(text, 0);
  if (first < 0x80) {
    return 1;
  }
  const std::size_t length = first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (length == 0 || text.size() < length) {
    return 0;
  }
  std::uint32_t point = first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (byte_at(text, i) >> 6 != 2) {
      return 0;
    }
    point = point << 6 | (byte_at(text, i) & 0x3fU);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = surrogates == Surrogates::kRefused && point >= 0xd800 && point < 0xe000;
  return point >= kSmallest[length] && point <= 0x10ffff && !surrogate ? length : 0;
}

}  // namespace

bool is_utf8(std::string_view text, Surrogates surrogates) {
  while (!text.empty()) {
    const std::size_t length = character_length(text, surrogates);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t length = character_length(text, Surrogates::kRefused);
    if (length == 0) {
      valid += "\xef\xbf\xbd";
    } else {
      valid += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return valid;
}

}  // namespace lockstep
