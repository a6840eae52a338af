// Whatever is in a safetensors file: its tensors lie inside of it, and can be written again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/safetensors.h"
#include "tests/checkpoint/values.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::checkpoint;
  const auto write = [](const Value& root) {
    std::string file;
    write_safetensors(root, [&](std::span<const std::byte> bytes) { file += as_text(bytes); });
    return file;
  };
  std::string again;
  try {
    again = write(read_safetensors("f", std::as_bytes(std::span(data, size)), nullptr));
  } catch (const lockstep::IoError&) {
    return 0;
  }
  if (write(read_safetensors("g", as_bytes(again), nullptr)) != again) {
    std::abort();
  }
  return 0;
}
