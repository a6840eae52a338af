// Whatever is in a file: a picture of the size that its header says, or an IoError.
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/decode/png.h"

namespace {

std::uint32_t big_endian_at(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

// With right checksums, so that what is behind them is reached.
std::vector<std::uint8_t> with_checksums(std::vector<std::uint8_t> file) {
  constexpr std::size_t kOther = 12;  // Length, name and checksum of a chunk.
  for (std::size_t at = 8; at + kOther <= file.size();) {
    const std::size_t length = big_endian_at(&file[at]);
    if (length > file.size() - at - kOther) {
      break;
    }
    const auto sum =
        static_cast<std::uint32_t>(::crc32(0, &file[at + 4], static_cast<uInt>(length + 4)));
    for (int i = 0; i < 4; ++i) {
      file[at + 8 + length + static_cast<std::size_t>(i)] =
          static_cast<std::uint8_t>(sum >> (24 - 8 * i));
    }
    at += length + kOther;
  }
  return file;
}

void check(std::span<const std::uint8_t> file) {
  try {
    lockstep::data::decode_png(std::as_bytes(file), 1 << 16);
  } catch (const lockstep::IoError&) {
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check({data, size});
  check(with_checksums({data, data + size}));
  return 0;
}
