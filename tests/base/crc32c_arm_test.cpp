// crc32c_test.cpp runs the published sums through the instruction, where this machine has it.
#include <gmock/gmock.h>

#include <cstddef>
#include <string>

#include "lockstep/base/crc32c.h"
#include "lockstep/base/crc32c_hardware.h"

namespace lockstep {
namespace {

TEST(Crc32cHardware, GivesWhatTheTableGivesAtAnyPlaceAndLength) {
  if (!has_crc32c_hardware()) {
    return;
  }
  const std::string text(100, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  for (std::size_t start = 0; start < 9; ++start) {
    for (std::size_t length = 0; length < 40; ++length) {
      const auto part = bytes.subspan(start, length);
      EXPECT_EQ(hardware_crc32c(7, part), portable_crc32c(7, part));
    }
  }
}

}  // namespace
}  // namespace lockstep
