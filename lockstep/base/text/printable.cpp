#include "lockstep/base/text/printable.h"

#include "lockstep/base/text/utf8.h"

namespace lockstep {

std::string printable(std::string_view text, std::string_view kept, std::string_view instead) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      clean += instead;
      ++i;  // U+0080 to U+009F; a terminal takes U+009B for the beginning of an escape sequence.
    } else if ((byte >= 0x20 && byte != 0x7F) || kept.find(text[i]) != std::string_view::npos) {
      clean += text[i];
    } else {
      clean += instead;
    }
  }
  return clean;
}

std::string printable_name(std::string_view text) { return printable(valid_utf8(text), "", "?"); }

}  // namespace lockstep
