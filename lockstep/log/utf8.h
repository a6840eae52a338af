// Text that every reader of the logs accepts.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::log {

// The text with U+FFFD in the place of each byte that is not part of valid UTF-8: a single such
// byte makes Python's protobuf, and so TensorBoard, refuse a record.
std::string valid_utf8(std::string_view text);

}  // namespace lockstep::log
