#include "lockstep/base/crc32c/crc32c.h"

#include <array>

#include "lockstep/base/crc32c/hardware.h"

namespace lockstep {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // Bits reversed.

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
    table[i] = crc;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

}  // namespace

std::uint32_t portable_crc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
  crc = ~crc;
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  }
  return ~crc;
}

std::uint32_t extend_crc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
  static const bool in_hardware = has_crc32c_hardware();
  return in_hardware ? hardware_crc32c(crc, bytes) : portable_crc32c(crc, bytes);
}

}  // namespace lockstep
