// torchvision_test.cpp compares every operation with Pillow's; here are the ends of their ranges.
#include "lockstep/data/transforms/color.h"

#include <gmock/gmock.h>

#include "tests/data/pictures.h"

namespace lockstep::data {
namespace {

using Adjust = void (*)(Image&, double);

TEST(Color, FactorOneChangesNothing) {
  for (const Adjust adjust :
       {adjust_brightness, adjust_contrast, adjust_saturation, adjust_sharpness}) {
    Image image = test_picture({9, 7});
    adjust(image, 1);
    EXPECT_EQ(pixels_text(image), pixels_text(test_picture({9, 7})));
  }
}

TEST(Color, FactorZeroLeavesNoBrightnessContrastOrColour) {
  Image black = test_picture({4, 4});
  adjust_brightness(black, 0);
  EXPECT_EQ(pixels_text(black), std::string(48, '\0'));
  Image flat = test_picture({4, 4});
  adjust_contrast(flat, 0);
  EXPECT_EQ(pixels_text(flat), std::string(48, pixels_text(flat)[0]));
  Image gray = test_picture({4, 4});
  adjust_saturation(gray, 0);
  for (std::size_t i = 0; i < gray.bytes(); i += 3) {
    EXPECT_EQ(gray.pixels[i], gray.pixels[i + 1]);
    EXPECT_EQ(gray.pixels[i], gray.pixels[i + 2]);
  }
}

TEST(Color, LargeFactorsStayInsideAByte) {
  Image image = picture_of(std::string("\x80\x01\x00", 3), 1);
  adjust_brightness(image, 1e9);
  EXPECT_EQ(pixels_text(image), std::string("\xff\xff\x00", 3));
}

// A picture without an inside has nothing to be smoothed.
TEST(Color, SharpnessLeavesTheBorder) {
  Image narrow = test_picture({2, 9});
  adjust_sharpness(narrow, 0);
  EXPECT_EQ(pixels_text(narrow), pixels_text(test_picture({2, 9})));
  Image image = test_picture({3, 3});
  adjust_sharpness(image, 0);
  const Image original = test_picture({3, 3});
  EXPECT_EQ(pixels_text(image).substr(0, 12), pixels_text(original).substr(0, 12));
  EXPECT_NE(pixels_text(image).substr(12, 3), pixels_text(original).substr(12, 3));
  EXPECT_EQ(pixels_text(image).substr(15), pixels_text(original).substr(15));
}

TEST(Color, HueTurnsRedIntoGreen) {
  Image image = picture_of(std::string("\xff\x00\x00", 3), 1);
  adjust_hue(image, 1.0 / 3);
  EXPECT_EQ(pixels_text(image), std::string("\x00\xff\x00", 3));
  Image gray = picture_of("\x50\x50\x50", 1);
  adjust_hue(gray, 0.5);
  EXPECT_EQ(pixels_text(gray), "\x50\x50\x50");
}

TEST(Color, FlatPicturesHaveNoHistogramToStretch) {
  for (void (*change)(Image&) : {autocontrast, equalize}) {
    Image image = picture_of(std::string(300, '\x50'), 10);
    change(image);
    EXPECT_EQ(pixels_text(image), std::string(300, '\x50'));
  }
}

TEST(Color, AutocontrastStretchesToTheWholeRange) {
  Image image = picture_of(std::string("\x40\x40\x40\x60\x50\x40", 6), {1, 2});
  autocontrast(image);
  EXPECT_EQ(pixels_text(image), std::string("\x00\x00\x40\xff\xff\x40", 6));
}

TEST(Color, PosterizeAndSolarizeWorkOnSingleBytes) {
  Image image = picture_of("\x7f\x80\xff", 1);
  posterize(image, 1);
  EXPECT_EQ(pixels_text(image), std::string("\x00\x80\x80", 3));
  solarize(image, 128);
  EXPECT_EQ(pixels_text(image), std::string("\x00\x7f\x7f", 3));
}

}  // namespace
}  // namespace lockstep::data
