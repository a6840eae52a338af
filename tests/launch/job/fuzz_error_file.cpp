// Whatever a worker leaves as its error file and on its stderr, the report is made and is small.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lockstep/launch/job/error_file.h"
#include "lockstep/launch/job/report.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto note = lockstep::launch::parse_error_note(text);
  lockstep::launch::Failure failure;
  failure.message = note.message;
  failure.traceback = note.traceback;
  failure.stderr_tail = text;
  const std::string report = lockstep::launch::format_report({failure}, true);
  if (report.size() > 20000 || report.find('\x1b') != std::string::npos) {
    std::abort();
  }
  return 0;
}
