// Whatever is in an event file: events that can be written again and read the same, or an IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/log/read_events.h"
#include "lockstep/log/record.h"

namespace {

using namespace lockstep;

// Checksums would stop nearly every input, so the bytes are also taken as an event without them.
void check_event(std::string_view bytes) {
  try {
    const auto event = log::parse_event(bytes);
    const auto written = log::encode_event(event);
    if (log::encode_event(log::parse_event(written)) != written) {
      std::abort();
    }
  } catch (const IoError&) {
  }
}

void check_file(std::string_view bytes) {
  try {
    const auto file = log::parse_events(bytes, "x");
    if (file.events.size() > bytes.size() / 16) {
      std::abort();
    }
  } catch (const IoError&) {
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_event(bytes);
  check_file(bytes);
  check_file(lockstep::log::frame_record(bytes));
  return 0;
}
