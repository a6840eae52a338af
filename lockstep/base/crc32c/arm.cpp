#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include <cstring>

#include "lockstep/base/crc32c/hardware.h"

namespace lockstep {

bool has_crc32c_hardware() { return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }

std::uint32_t hardware_crc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
  std::uint32_t sum = ~crc;
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  for (; end - at >= 8; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    sum = __crc32cd(sum, word);
  }
  for (; at < end; ++at) {
    sum = __crc32cb(sum, std::to_integer<std::uint8_t>(*at));
  }
  return ~sum;
}

}  // namespace lockstep
