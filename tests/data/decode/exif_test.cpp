#include "lockstep/data/decode/exif.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/data/decode/seeds.h"
#include "tests/data/files.h"

namespace lockstep::data {
namespace {

// Three columns and two rows, each pixel another letter:  abc
//                                                         def
Image letters() {
  Image image = make_image(3, 2, 6);
  for (int i = 0; i < 6; ++i) {
    std::fill_n(image.pixels.get() + 3 * i, 3, static_cast<std::uint8_t>('a' + i));
  }
  return image;
}

std::string turned(int orientation) {
  const Image image = turn(letters(), orientation);
  std::string text;
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      text.push_back(static_cast<char>(image.row(y)[3 * x + 1]));
    }
    text.push_back('\n');
  }
  return text;
}

TEST(Turn, PutsThePictureUpright) {
  EXPECT_EQ(turned(1), "abc\ndef\n");
  EXPECT_EQ(turned(2), "cba\nfed\n");
  EXPECT_EQ(turned(3), "fed\ncba\n");
  EXPECT_EQ(turned(4), "def\nabc\n");
  EXPECT_EQ(turned(5), "ad\nbe\ncf\n");
  EXPECT_EQ(turned(6), "da\neb\nfc\n");
  EXPECT_EQ(turned(7), "fc\neb\nda\n");
  EXPECT_EQ(turned(8), "cf\nbe\nad\n");
}

std::string two_bytes(std::size_t number, bool big) {
  const char high = static_cast<char>(number >> 8);
  const char low = static_cast<char>(number);
  return big ? std::string{high, low} : std::string{low, high};
}

// A JPEG's start with one entry, the orientation.
std::string exif_start(std::size_t orientation, bool big) {
  const std::string zero = two_bytes(0, big);
  const std::string tiff = (big ? "MM" : "II") + two_bytes(42, big) +
                           (big ? zero + two_bytes(8, big) : two_bytes(8, big) + zero) +
                           two_bytes(1, big) + two_bytes(0x0112, big) + two_bytes(3, big) +
                           (big ? zero + two_bytes(1, big) : two_bytes(1, big) + zero) +
                           two_bytes(orientation, big) + zero;
  const std::string app = std::string("Exif\0\0", 6) + tiff;
  return "\xff\xd8\xff\xe1" + two_bytes(app.size() + 2, true) + app + "\xff\xda";
}

TEST(ExifOrientation, IsReadInBothByteOrders) {
  for (const bool big : {false, true}) {
    EXPECT_EQ(exif_orientation(file_bytes(exif_start(6, big))), 6);
    EXPECT_EQ(exif_orientation(file_bytes(exif_start(9, big))), 1);
    EXPECT_EQ(exif_orientation(file_bytes(exif_start(0, big))), 1);
  }
  EXPECT_EQ(exif_orientation(file_bytes(seed_file("jpeg/exif.jpg"))), 6);
  EXPECT_EQ(exif_orientation(file_bytes(seed_file("jpeg/gray.jpg"))), 1);
}

TEST(ExifOrientation, ACutFileHasNone) {
  const std::string whole = exif_start(6, true);
  for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
    // In memory of its own: a sanitizer sees a read behind the end.
    const std::string part(whole, 0, size);
    EXPECT_EQ(exif_orientation(file_bytes(part)), 1) << size;
  }
}

}  // namespace
}  // namespace lockstep::data
