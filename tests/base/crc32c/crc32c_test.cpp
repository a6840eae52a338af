#include "lockstep/base/crc32c/crc32c.h"

#include <gmock/gmock.h>

#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/crc32c/hardware.h"

namespace lockstep {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

using Crc = std::uint32_t (*)(std::uint32_t, std::span<const std::byte>);
constexpr Crc kBoth[] = {extend_crc32c, portable_crc32c};

// RFC 3720, B.4.
TEST(Crc32c, GivesThePublishedSums) {
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  const std::string falling(rising.rbegin(), rising.rend());
  for (const Crc crc : kBoth) {
    EXPECT_EQ(crc(0, bytes_of(std::string(32, '\0'))), 0x8a9136aaU);
    EXPECT_EQ(crc(0, bytes_of(std::string(32, '\xff'))), 0x62a8ab43U);
    EXPECT_EQ(crc(0, bytes_of(rising)), 0x46dd794eU);
    EXPECT_EQ(crc(0, bytes_of(falling)), 0x113fdb5cU);
    EXPECT_EQ(crc(0, bytes_of("123456789")), 0xe3069283U);
    EXPECT_EQ(crc(0, {}), 0U);
  }
}

TEST(Crc32c, PartsAddUpToTheWhole) {
  const std::string text = "any text that is longer than a few words of the machine";
  for (const Crc crc : kBoth) {
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      EXPECT_EQ(crc(crc(0, bytes_of(text.substr(0, cut))), bytes_of(text.substr(cut))),
                crc32c(bytes_of(text)));
    }
  }
}

TEST(Crc32c, TheInstructionGivesWhatTheTableGivesAtAnyPlaceAndLength) {
  if (!has_crc32c_hardware()) {
    return;
  }
  std::string text(100, '\0');
  std::iota(text.begin(), text.end(), '\0');
  for (std::size_t start = 0; start < 9; ++start) {
    for (std::size_t length = 0; length < 40; ++length) {
      const auto part = bytes_of(text).subspan(start, length);
      EXPECT_EQ(hardware_crc32c(7, part), portable_crc32c(7, part));
    }
  }
}

}  // namespace
}  // namespace lockstep
