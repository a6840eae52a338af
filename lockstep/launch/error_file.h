// Reads what a worker wrote about its own end, in torchelastic's format.
//
// The file is the worker's: nothing about it is trusted, neither its size nor its kind nor its
// text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::launch {

struct ErrorNote {
  std::string message;
  std::string traceback;
  std::int64_t timestamp = 0;  // Seconds since the epoch by the worker's clock; 0: unknown.

  [[nodiscard]] bool empty() const { return message.empty() && traceback.empty(); }
};

// Empty for text that is not in the format.
ErrorNote parse_error_note(std::string_view json);

// Empty if there is no such file, if it is no plain file, or if it is larger than 1 MiB.
ErrorNote read_error_note(const std::string& path);

}  // namespace lockstep::launch
