// Reads the event files that SummaryWriter, or Python's, wrote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/log/event.h"

namespace lockstep::log {

struct EventFile {
  std::vector<Event> events;
  bool is_cut = false;  // The last record is not whole: its writer was killed, or still writes.
};

// Throws IoError with path and offset if a checksum is wrong or a record is no event. At most 1 GiB
// is read.
EventFile read_events(const std::string& path);

// The same of a file's bytes; `name` is for messages.
EventFile parse_events(std::string_view bytes, const std::string& name);

}  // namespace lockstep::log
