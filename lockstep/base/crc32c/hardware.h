// The processor's instruction for CRC-32C; for crc32c.cpp alone. There is a file for each kind of
// processor, compiled for one that has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

bool has_crc32c_hardware();

// Only where there is one.
std::uint32_t hardware_crc32c(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace lockstep
