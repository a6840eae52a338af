#include "lockstep/log/read_events.h"

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/log/record.h"

namespace lockstep::log {

EventFile parse_events(std::string_view bytes, const std::string& name) {
  EventFile file;
  RecordReader records(bytes, name);
  for (auto offset = records.offset(); const auto payload = records.next();
       offset = records.offset()) {
    try {
      file.events.push_back(parse_event(*payload));
    } catch (const IoError& error) {
      throw IoError("reading '" + name + "': the record at byte " + std::to_string(offset) +
                    " is no event: " + error.what());
    }
  }
  file.is_cut = records.is_cut();
  return file;
}

EventFile read_events(const std::string& path) {
  return parse_events(read_file(path, std::size_t{1} << 30), path);
}

}  // namespace lockstep::log
