// Text that somebody else wrote, made safe to show on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// With `instead` in the place of each control character (also those that UTF-8 writes in two
// bytes), except those that are `kept`.
std::string printable(std::string_view text, std::string_view kept = "",
                      std::string_view instead = "");

// Without control characters; tabs stay.
inline std::string printable_line(std::string_view text) { return printable(text, "\t"); }

// The same; line ends stay as well.
inline std::string printable_text(std::string_view text) { return printable(text, "\t\n"); }

// For names of files and what is quoted of their contents: one line of valid UTF-8, with '?' in the
// place of each control character and U+FFFD in that of each byte that is not part of UTF-8.
std::string printable_name(std::string_view text);

}  // namespace lockstep
