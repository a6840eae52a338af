// Text that somebody else wrote, made safe to show on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::launch {

// Without control characters (also those that UTF-8 writes in two bytes); tabs stay.
std::string printable_line(std::string_view text);

// The same; line ends stay as well.
std::string printable_text(std::string_view text);

}  // namespace lockstep::launch
