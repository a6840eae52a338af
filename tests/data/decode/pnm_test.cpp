#include "lockstep/data/decode/pnm.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/data/files.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<int> pixels_of_pnm(const std::string& file) {
  const Image image = decode_pnm(file_bytes(file), 1000);
  return {image.pixels.get(), image.pixels.get() + image.bytes()};
}

TEST(DecodePnm, ReadsTextAndBytes) {
  EXPECT_THAT(pixels_of_pnm("P6 2 1 255\nabcdef"), ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  EXPECT_THAT(pixels_of_pnm("P5 1 2 255\nab"), ElementsAre('a', 'a', 'a', 'b', 'b', 'b'));
  EXPECT_THAT(pixels_of_pnm("P3 1 1 255\n1 2\n3"), ElementsAre(1, 2, 3));
  EXPECT_THAT(pixels_of_pnm("P2 # c\n1 #d\n1 255 7"), ElementsAre(7, 7, 7));
}

TEST(DecodePnm, ScalesToTheLargestValue) {
  EXPECT_THAT(pixels_of_pnm("P3 1 1 100\n0 50 100"), ElementsAre(0, 128, 255));
  EXPECT_THAT(pixels_of_pnm(std::string("P6 1 1 1000\n\0\0\1\xf4\3\xe8", 18)),
              ElementsAre(0, 128, 255));
}

TEST(DecodePnm, WhatIsWrongIsNamed) {
  const auto refuses = [](const std::string& file, const std::string& part) {
    EXPECT_THAT([&] { pixels_of_pnm(file); }, ThrowsMessage<IoError>(HasSubstr(part))) << file;
  };
  refuses("P6 2 1 255\nabcde", "says 2x1 pixels, at least 6 bytes, and 5 follow");
  refuses("P2 2 1 255\n12", "at least 3 bytes, and 2 follow");
  refuses("P2 2 1 255\n1 ", "at least 3 bytes, and 2 follow");
  refuses("P2 2 1 255\n123", "the data end before the last pixel");
  refuses("P5 x 1 255\nab", "the width is 'x'");
  refuses("P5 -2 1 255\nab", "the width is '-2'");
  refuses("P5 2", "the data end before the height");
  refuses("P5 2 1 65536\nabcd", "the largest value is 65536, expected 1 to 65535");
  refuses("P3 1 1 9\n1 2 10", "a sample is 10, expected at most 9");
  refuses("P5 60000 60000 255\nab", "says 60000x60000 pixels, expected at most 1000");
  refuses("P5 9999999999 9999999999 255\nab", "says 9999999999x9999999999 pixels");
  refuses("P5 12345678901 1 255\nab", "more than 10 characters");
  refuses("P5 \x1b[2J 1 255\nab", "the width is '?[2J'");
  refuses("P5 0 1 255\nab", "says 0x1 pixels");
}

}  // namespace
}  // namespace lockstep::data
