// torchelastic's error file: reads what a worker wrote about its own end, and writes the root cause
// for the launcher that started this one.
//
// A worker owns its file, so nothing about it is trusted: neither its size nor its type nor its
// text.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/launch/protocol/failure.h"

namespace lockstep::launch {

struct ErrorNote {
  std::string message;
  std::string traceback;
  std::int64_t timestamp = 0;  // Seconds since the epoch by the worker's clock; 0: unknown.

  // By this machine's coarse clock (coarse_now()), if it was read from a file.
  std::chrono::nanoseconds written{};

  [[nodiscard]] bool empty() const { return message.empty() && traceback.empty(); }
};

// Empty for text that is not in the format.
ErrorNote parse_error_note(std::string_view json);

// Empty if there is no such file, if it is no plain file, or if it is larger than 1 MiB.
ErrorNote read_error_note(const std::string& path);

// The clock that the kernel stamps files with.
std::chrono::nanoseconds coarse_now();

// Writes torchelastic's format, as torchrun does for its root cause. Returns false, with errno set,
// if the file cannot be written.
bool write_error_note(const std::string& path, const ErrorNote& note, int exit_code);

// What the launcher says of a worker that failed.
ErrorNote note_of(const Failure& root_cause, bool several_nodes);

}  // namespace lockstep::launch
