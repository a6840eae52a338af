#include "lockstep/data/decode/png.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <string>

#include "lockstep/base/error.h"
#include "tests/data/decode/seeds.h"
#include "tests/data/files.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Image decode_png_text(const std::string& file) { return decode_png(file_bytes(file), 1'000'000); }

std::string big_endian(std::uint32_t number) {
  return {static_cast<char>(number >> 24), static_cast<char>(number >> 16),
          static_cast<char>(number >> 8), static_cast<char>(number)};
}

// The header is the first chunk: its data are bytes 16 to 28, its checksum the four behind them.
std::string with_size(std::string png, std::uint32_t width, std::uint32_t height) {
  png.replace(16, 8, big_endian(width) + big_endian(height));
  const auto* name = reinterpret_cast<const Bytef*>(png.data()) + 12;
  png.replace(29, 4, big_endian(static_cast<std::uint32_t>(::crc32(0, name, 17))));
  return png;
}

TEST(DecodePng, ReadsAllKinds) {
  for (const char* name : {"0-1", "0-16", "2-8", "3-4", "4-8", "6-16"}) {
    const Image image = decode_png_text(seed_file(std::string("png/") + name + ".png"));
    EXPECT_EQ(image.width, 5) << name;
    EXPECT_EQ(image.height, 3) << name;
  }
  EXPECT_EQ(decode_png_text(seed_file("png/interlaced.png")).width, 9);
}

// IEND, 12 bytes, only says that the file ends.
TEST(DecodePng, ACutFileIsAnError) {
  for (const char* name : {"0-16", "2-8", "3-4", "interlaced"}) {
    const std::string whole = seed_file(std::string("png/") + name + ".png");
    for (std::size_t size = 8; size + 24 < whole.size(); ++size) {
      const std::string part(whole, 0, size);
      ASSERT_THROW(decode_png_text(part), IoError) << name << " cut to " << size;
    }
  }
  EXPECT_THAT([] { decode_png_text(seed_file("png/interlaced.png").substr(0, 760)); },
              ThrowsMessage<IoError>(HasSubstr("PNG: the data end in row")));
}

TEST(DecodePng, AWrongChecksumIsAnError) {
  std::string file = seed_file("png/2-8.png");
  file[file.find("IDAT") + 10] ^= 1;
  EXPECT_THAT([&] { decode_png_text(file); }, ThrowsMessage<IoError>(HasSubstr("PNG: IDAT: CRC")));
}

TEST(DecodePng, AnEnormousHeaderTakesNoMemory) {
  EXPECT_THAT([] { decode_png_text(with_size(seed_file("png/2-8.png"), 60000, 60000)); },
              ThrowsMessage<IoError>(HasSubstr("says 60000x60000 pixels, expected at most")));
  EXPECT_THAT([] { decode_png_text(with_size(seed_file("png/2-8.png"), 0x7fffffff, 0x7fffffff)); },
              ThrowsMessage<IoError>(HasSubstr("says 2147483647x2147483647 pixels")));
}

TEST(DecodePng, MoreRowsThanDataIsAnError) {
  EXPECT_THROW(decode_png_text(with_size(seed_file("png/2-8.png"), 5, 400)), IoError);
}

}  // namespace
}  // namespace lockstep::data
