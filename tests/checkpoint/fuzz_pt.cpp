// Whatever is in a zip archive: what comes out of it lies inside of it, and can be written again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/zip/reader.h"
#include "tests/checkpoint/values.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::checkpoint;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    for (const ZipRecord& record : read_zip("f", bytes).records) {
      (void)is_sound(record);  // Reads every byte.
    }
  } catch (const lockstep::IoError&) {
  }
  try {
    const PtFile pt = read_pt("f", bytes, nullptr);
    const std::string again = pt_bytes(pt.root);
    if (!read_pt("g", as_bytes(again), nullptr).is_ours) {
      std::abort();
    }
  } catch (const lockstep::Error&) {
  }
  return 0;
}
