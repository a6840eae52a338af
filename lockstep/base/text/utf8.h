// Which bytes are text.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Half a character of UTF-16: no text to most readers, but Python's pickle takes it.
enum class Surrogates { kRefused, kAllowed };

bool is_utf8(std::string_view text, Surrogates surrogates = Surrogates::kRefused);

// The text with U+FFFD in the place of each byte that is not part of valid UTF-8: a single such
// byte makes Python's protobuf, and so TensorBoard, refuse a record.
std::string valid_utf8(std::string_view text);

}  // namespace lockstep
