#include <nmmintrin.h>

#include <cstring>

#include "lockstep/base/crc32c/hardware.h"

namespace lockstep {

bool has_crc32c_hardware() { return __builtin_cpu_supports("sse4.2") != 0; }

std::uint32_t hardware_crc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
  std::uint64_t sum = ~crc;
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  for (; end - at >= 8; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    sum = _mm_crc32_u64(sum, word);
  }
  auto rest = static_cast<std::uint32_t>(sum);
  for (; at < end; ++at) {
    rest = _mm_crc32_u8(rest, std::to_integer<std::uint8_t>(*at));
  }
  return ~rest;
}

}  // namespace lockstep
