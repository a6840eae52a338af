// One entry of an event file: scalars, texts and histograms of a step.
//
// The bytes are those of TensorFlow's event.proto and summary.proto;
// docs/internals/event_file_format.md lists the fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/log/histogram.h"

namespace lockstep::log {

// The version that the first event of a file names.
inline constexpr const char* kFileVersion = "brain.Event:2";

struct SummaryValue {
  std::string tag;
  // A scalar, a text, a histogram; the first is what a reader found that is none of these.
  std::variant<std::monostate, float, std::string, Histogram> value;
};

struct Event {
  double wall_time = 0;  // Seconds since 1970.
  std::int64_t step = 0;
  std::string file_version;  // In the first event of a file alone.
  std::vector<SummaryValue> summary;
  bool session_start = false;  // Viewers forget earlier events from `step` on.
  std::string writer;          // The program that wrote the file.
};

std::string encode_event(const Event& event);

// Fields of unknown numbers are ignored. Throws IoError if the bytes are no event.
Event parse_event(std::string_view bytes);

}  // namespace lockstep::log
