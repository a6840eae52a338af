// torchelastic's error file: reads what a worker wrote about its own end, and writes what a
// launcher has to say to the one that started it.
//
// The file of a worker is the worker's: nothing about it is trusted, neither its size nor its kind
// nor its text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/launch/failure.h"

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

// In torchelastic's format, as torchrun writes it for its root cause. False, with errno, if the
// file cannot be written.
bool write_error_note(const std::string& path, const ErrorNote& note, int exit_code);

// What the launcher says of a worker that failed.
ErrorNote note_of(const Failure& root_cause, bool several_nodes);

}  // namespace lockstep::launch
