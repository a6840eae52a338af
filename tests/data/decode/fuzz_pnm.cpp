// Whatever is in a file: a picture of the size that its header says, or an IoError.
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/data/decode/pnm.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    lockstep::data::decode_pnm(std::as_bytes(std::span(data, size)), 1 << 16);
  } catch (const lockstep::IoError&) {
  }
  return 0;
}
