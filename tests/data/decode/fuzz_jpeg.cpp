// Whatever is in a file: a picture of the size that its header says, or an IoError.
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/data/decode/exif.h"
#include "lockstep/data/decode/jpeg.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const int orientation = lockstep::data::exif_orientation(file);
  try {
    lockstep::data::turn(lockstep::data::decode_jpeg(file, 1 << 16), orientation);
  } catch (const lockstep::IoError&) {
  }
  return 0;
}
