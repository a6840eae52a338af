// Whatever is in a file, packed or not: an array with all its elements, or an IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/data/readers/idx.h"
#include "tests/data/files.h"

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void check(std::string_view content) {
  const lockstep::data::MemoryFile file(content);
  try {
    const auto array = lockstep::data::load_idx(file.path());
    std::size_t elements = 1;
    for (const auto size : array.sizes) {
      require(size >= 0);
      elements *= static_cast<std::size_t>(size);
    }
    require(elements == 0 ? array.bytes.empty() : array.bytes.size() % elements == 0);
  } catch (const lockstep::IoError&) {
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  check(input);
  check("\x1f\x8b" + input);
  if (size < 3) {
    return 0;
  }
  // Nearly right: types and sizes from the input, then one byte of the packed file from it.
  const std::string rest = input.substr(3);
  const auto header = lockstep::data::idx_header(
      static_cast<std::uint8_t>(8 + data[0] % 8),
      {static_cast<std::uint32_t>(rest.size() / (1U << data[1] % 4)), data[1] % 2 + 1U});
  check(header + rest);
  std::string packed = lockstep::data::gzip(header + rest);
  check(packed);
  packed[data[2] % packed.size()] ^= static_cast<char>(data[0]);
  check(packed);
  return 0;
}
