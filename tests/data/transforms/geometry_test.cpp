// torchvision_test.cpp compares with Pillow; here is what a look at the pixels tells.
#include "lockstep/data/transforms/geometry.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/data/pictures.h"

namespace lockstep::data {
namespace {

// One letter three times is a pixel.
Image letters(const std::string& text, Size size) {
  std::string pixels;
  for (const char letter : text) {
    pixels += std::string(3, letter);
  }
  return picture_of(pixels, size);
}

std::string letters_of(const Image& image) {
  std::string text;
  for (std::size_t i = 0; i < image.bytes(); i += 3) {
    text.push_back(static_cast<char>(image.pixels[i]));
  }
  return text;
}

constexpr Color kDot = {'.', '.', '.'};

TEST(Geometry, FlipsTurnRowsAndColumnsAround) {
  const Image image = letters("abcdef", {2, 3});
  EXPECT_EQ(letters_of(horizontal_flip(image)), "cbafed");
  EXPECT_EQ(letters_of(vertical_flip(image)), "defabc");
}

TEST(Geometry, ACropMayReachBeyondThePicture) {
  const Image image = letters("abcdef", {2, 3});
  const auto cropped = [&](const Box& box) { return letters_of(crop(image, box, kDot)); };
  EXPECT_EQ(cropped({.left = 1, .top = 0, .width = 2, .height = 2}), "bcef");
  EXPECT_EQ(cropped({.left = -1, .top = -1, .width = 3, .height = 2}), "....ab");
  EXPECT_EQ(cropped({.left = 2, .top = 1, .width = 2, .height = 2}), "f...");
  EXPECT_EQ(cropped({.left = 5, .top = 0, .width = 2, .height = 1}), "..");
  EXPECT_EQ(cropped({.left = -5, .top = 0, .width = 2, .height = 1}), "..");
}

TEST(Geometry, AffineMapsSayWhereAPixelComesFrom) {
  const Image image = letters("abcdef", {2, 3});
  for (const auto interpolation : {Interpolation::kNearest, Interpolation::kBilinear}) {
    EXPECT_EQ(letters_of(affine(image, {1, 0, 1, 0, 1, 0}, interpolation, kDot)), "bc.ef.");
    EXPECT_EQ(letters_of(affine(image, {1, 0, 0, 0, 1, -1}, interpolation, kDot)), "...abc");
  }
}

TEST(Geometry, AWholeTurnChangesNothing) {
  const Image image = letters("abcdef", {2, 3});
  EXPECT_EQ(letters_of(rotate(image, 360, Interpolation::kNearest, kDot)), "abcdef");
  EXPECT_EQ(letters_of(rotate(image, -720, Interpolation::kBilinear, kDot)), "abcdef");
}

TEST(Geometry, RotationIsCounterClockwise) {
  const Image image = letters("abcdefghi", {3, 3});
  EXPECT_EQ(letters_of(rotate(image, 90, Interpolation::kNearest, kDot)), "cfibehadg");
  EXPECT_EQ(letters_of(rotate(image, -90, Interpolation::kNearest, kDot)), "gdahebifc");
}

// A row of pixels a, b, c, each three equal bytes.
std::string row_text(ImageView image) {
  std::string text;
  for (std::int64_t x = 0; x < image.width; ++x) {
    text += static_cast<char>(image.row(0)[x * 3]);
  }
  return text;
}

TEST(Pad, ContinuesAPictureBeyondItsBorder) {
  const Image abc = picture_of("aaabbbccc", {1, 3});
  const Padding padding(4, 0, 5, 0);
  EXPECT_EQ(row_text(pad(abc, padding, PaddingMode::kEdge)), "aaaaabcccccc");
  EXPECT_EQ(row_text(pad(abc, padding, PaddingMode::kReflect)), "abcbabcbabcb");
  EXPECT_EQ(row_text(pad(abc, padding, PaddingMode::kSymmetric)), "ccbaabccbaab");
  const Image one = picture_of("aaa", {1, 1});
  EXPECT_EQ(row_text(pad(one, padding, PaddingMode::kReflect)), std::string(10, 'a'));
}

}  // namespace
}  // namespace lockstep::data
