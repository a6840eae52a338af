#include "lockstep/data/decode/decode.h"

#include <gmock/gmock.h>

#include <string>

#include "lockstep/base/error.h"
#include "tests/data/files.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ImageFormat, IsToldByTheFirstBytes) {
  EXPECT_EQ(image_format(file_bytes("\xff\xd8\xff")), ImageFormat::kJpeg);
  EXPECT_EQ(image_format(file_bytes("\x89PNG\r\n\x1a\n")), ImageFormat::kPng);
  for (const std::string start : {"P2", "P3", "P5", "P6"}) {
    EXPECT_EQ(image_format(file_bytes(start)), ImageFormat::kPnm);
  }
  for (const std::string start : {"", "P", "P1", "P7", "\xff\xd8", "\x89PNG", "GIF89a", "BM"}) {
    EXPECT_EQ(image_format(file_bytes(start)), std::nullopt) << start;
  }
}

TEST(DecoderVersions, NameBothLibraries) {
  EXPECT_THAT(
      decoder_versions(),
      ::testing::MatchesRegex("(libjpeg-turbo [0-9]+|no libjpeg), (libpng [0-9]+|no libpng)"));
}

TEST(DecodeImage, WhatIsNoImageIsNamed) {
  const auto decode = [](const std::string& file) {
    return [=] { (void)decode_image(file_bytes(file)); };
  };
  EXPECT_THAT(decode(""), ThrowsMessage<IoError>(HasSubstr("the file has 0 bytes")));
  EXPECT_THAT(decode("\xff\xd8\xff"), ThrowsMessage<IoError>(HasSubstr("the file has 3 bytes")));
  EXPECT_THAT(decode("GIF89a and more"),
              ThrowsMessage<IoError>(HasSubstr("starts with 'GIF8' and is not JPEG")));
}

TEST(DecodeImage, TheLimitIsThatOfTheOptions) {
  const std::string file = "P6 2 1 255\nabcdef";
  EXPECT_EQ(decode_image(file_bytes(file), {.max_pixels = 2}).bytes(), 6);
  EXPECT_THAT([&] { (void)decode_image(file_bytes(file), {.max_pixels = 1}); },
              ThrowsMessage<IoError>(HasSubstr("says 2x1 pixels, expected at most 1 in all")));
}

}  // namespace
}  // namespace lockstep::data
