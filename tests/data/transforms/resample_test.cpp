// torchvision_test.cpp compares with Pillow; here are properties and edges.
#include "lockstep/data/transforms/resample.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/data/transforms/geometry.h"
#include "tests/data/pictures.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Interpolation kAll[] = {Interpolation::kNearest, Interpolation::kBilinear,
                                  Interpolation::kBicubic};

TEST(Resize, TheSameSizeChangesNothing) {
  const Image image = test_picture({13, 17});
  for (const Interpolation interpolation : kAll) {
    EXPECT_EQ(pixels_text(resize(image, {13, 17}, interpolation)), pixels_text(image));
  }
}

TEST(Resize, AFlatPictureStaysFlat) {
  const Image image = picture_of(std::string(3 * 40 * 30, '\x7b'), {40, 30});
  for (const Interpolation interpolation : kAll) {
    for (const Size size : {Size{1, 1}, Size{7, 90}, Size{90, 7}, Size{39, 31}, Size{200, 300}}) {
      const Image resized = resize(image, size, interpolation);
      EXPECT_EQ(pixels_text(resized), std::string(resized.bytes(), '\x7b'));
    }
  }
}

// Every pixel counts: this is what antialias means.
TEST(Resize, OnePixelIsTheMeanOfAll) {
  std::string checkers;
  for (int i = 0; i < 100; ++i) {
    checkers += std::string(3, (i / 10 + i) % 2 == 0 ? '\0' : '\xff');
  }
  const Image one = resize(picture_of(checkers, 10), 1, Interpolation::kBilinear);
  EXPECT_NEAR(one.pixels[0], 128, 3);
}

// Rows are made two at a time, and the last may be alone.
TEST(Resize, AllShapesStayInsideTheirMemory) {
  for (std::int64_t height = 1; height < 7; ++height) {
    for (std::int64_t width = 1; width < 9; ++width) {
      const Image image = test_picture({height, width});
      for (const Size size : {Size{1, 1}, Size{2, 3}, Size{5, 2}, Size{9, 8}, Size{3, 33}}) {
        for (const Interpolation interpolation : kAll) {
          EXPECT_EQ(resize(image, size, interpolation).width, size.width);
        }
      }
    }
  }
}

TEST(Resize, ABoxIsWhatIsSeen) {
  const Image image = test_picture({20, 30});
  const FloatBox box{.left = 4, .top = 6, .width = 10, .height = 8};
  const ImageView part = ImageView(image).part({.left = 4, .top = 6, .width = 10, .height = 8});
  const Resized same{.size = {8, 10}, .window = {.width = 10, .height = 8}};
  EXPECT_EQ(pixels_text(resize(image, box, same, Interpolation::kBilinear)),
            pixels_text(resize(part, {8, 10}, Interpolation::kBilinear)));
}

// Both sides larger, smaller or the same, and rows or columns first.
TEST(Resize, AWindowHasThePixelsThatTheWholeHasThere) {
  constexpr Box kWindows[] = {{.left = 3, .top = 2, .width = 5, .height = 4},
                              {.left = 0, .top = 0, .width = 1, .height = 1},
                              {.left = 7, .top = 5, .width = 4, .height = 3},
                              {.left = 0, .top = 7, .width = 11, .height = 1}};
  for (const Size from : {Size{8, 11}, Size{8, 30}, Size{30, 11}, Size{40, 40}, Size{3, 4},
                          Size{90, 11}, Size{90, 20}}) {
    const Image image = test_picture(from);
    for (const Interpolation interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
      const Image all = resize(image, {8, 11}, interpolation);
      for (const Box& window : kWindows) {
        const Resized wanted{.size = {8, 11}, .window = window};
        EXPECT_EQ(pixels_text(resize(image, whole(image), wanted, interpolation)),
                  pixels_text(crop(all, window)))
            << from.height << "x" << from.width << " " << window.left;
      }
    }
  }
}

TEST(Resize, NothingCannotBeResized) {
  const Image image = test_picture({20, 30});
  EXPECT_THAT([&] { resize(image, {0, 5}, Interpolation::kBilinear); },
              ThrowsMessage<UsageError>(HasSubstr("from 20x30 to 0x5 pixels")));
}

}  // namespace
}  // namespace lockstep::data
