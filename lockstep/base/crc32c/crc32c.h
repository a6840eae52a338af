// CRC-32C (Castagnoli), as in iSCSI (RFC 3720) and ext4: tells damaged bytes from sound ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

// Continues a checksum: extend_crc32c(crc32c(a), b) is the checksum of a followed by b. Uses the
// processor's own instruction if there is one.
std::uint32_t extend_crc32c(std::uint32_t crc, std::span<const std::byte> bytes);

inline std::uint32_t crc32c(std::span<const std::byte> bytes) { return extend_crc32c(0, bytes); }

// The same without that instruction.
std::uint32_t portable_crc32c(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace lockstep
