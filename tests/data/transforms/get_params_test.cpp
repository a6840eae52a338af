// torchvision_test.cpp compares sizes and distributions with torchvision's.
#include "lockstep/data/transforms/get_params.h"

#include <gmock/gmock.h>

#include <set>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(GetParams, ResizeKeepsTheShapeUnlessBothSidesAreGiven) {
  EXPECT_EQ(get_params(Resize{.size = 256}, {375, 500}), (Size{256, 341}));
  EXPECT_EQ(get_params(Resize{.size = 256}, {500, 375}), (Size{341, 256}));
  EXPECT_EQ(get_params(Resize{.size = Size{10, 20}}, {500, 375}), (Size{10, 20}));
  EXPECT_EQ(get_params(Resize{.size = 256, .max_size = 300}, {375, 500}), (Size{225, 300}));
  EXPECT_THAT([] { get_params(Resize{.size = 2, .max_size = 3}, {1000, 1}); },
              ThrowsMessage<IoError>(HasSubstr("nothing would be left")));
}

TEST(GetParams, CenterCropRoundsHalvesToEven) {
  EXPECT_EQ(get_params(CenterCrop{.size = 4}, {7, 9}),
            (Box{.left = 2, .top = 2, .width = 4, .height = 4}));
  EXPECT_EQ(get_params(CenterCrop{.size = 8}, {5, 8}),
            (Box{.left = 0, .top = -1, .width = 8, .height = 8}));
}

TEST(GetParams, ARandomCropOfTheWholePictureIsThePicture) {
  SampleRandom random(1, 0, 0);
  EXPECT_EQ(get_params(RandomCrop{.size = {5, 8}}, {5, 8}, random), (Box{.width = 8, .height = 5}));
}

TEST(GetParams, PaddingMovesACropBeyondThePicture) {
  std::set<std::int64_t> lefts;
  for (std::uint64_t i = 0; i < 200; ++i) {
    SampleRandom random(1, 0, i);
    const Box box = get_params(RandomCrop{.size = 8, .padding = {1, 2, 3, 4}}, 8, random);
    EXPECT_GE(box.top, -2);
    EXPECT_LE(box.top, 4);
    lefts.insert(box.left);
  }
  EXPECT_EQ(lefts, (std::set<std::int64_t>{-1, 0, 1, 2, 3}));
}

TEST(GetParams, ASmallPictureIsPaddedOnlyIfNeededAndAsked) {
  SampleRandom random(1, 0, 0);
  EXPECT_THAT([&] { get_params(RandomCrop{.size = 8}, {9, 7}, random); },
              ThrowsMessage<UsageError>(HasSubstr("9x7 pixels, expected at least 8x8")));
  for (std::uint64_t i = 0; i < 50; ++i) {
    SampleRandom numbers(1, 0, i);
    const Box box = get_params(RandomCrop{.size = 8, .pad_if_needed = true}, {9, 7}, numbers);
    EXPECT_GE(box.left, -1);
    EXPECT_LE(box.left, 0);
    EXPECT_GE(box.top, 0);
    EXPECT_LE(box.top, 1);
  }
}

TEST(GetParams, AResizedCropAlwaysLiesInside) {
  for (const Size image : {Size{1, 1}, Size{1, 300}, Size{300, 1}, Size{60, 90}}) {
    for (std::uint64_t i = 0; i < 300; ++i) {
      SampleRandom random(1, 0, i);
      const Box box = get_params(RandomResizedCrop{.size = 4}, image, random);
      ASSERT_TRUE(box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0);
      ASSERT_LE(box.left + box.width, image.width);
      ASSERT_LE(box.top + box.height, image.height);
    }
  }
}

// Ten draws did not fit: the middle, in a shape that is allowed.
TEST(GetParams, AShapeThatNeverFitsGivesTheMiddle) {
  SampleRandom random(1, 0, 0);
  const RandomResizedCrop crop{.size = 4, .scale = {1, 1}};
  EXPECT_EQ(get_params(crop, {90, 900}, random),
            (Box{.left = 390, .top = 0, .width = 120, .height = 90}));
  EXPECT_EQ(get_params(crop, {900, 90}, random),
            (Box{.left = 0, .top = 390, .width = 90, .height = 120}));
}

TEST(GetParams, ErasingHappensWithItsProbability) {
  int erased = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    SampleRandom random(1, 0, i);
    erased += get_params(RandomErasing{.p = 0.25}, {90, 160}, random) ? 1 : 0;
  }
  EXPECT_NEAR(erased, 500, 100);
}

TEST(GetParams, JitterLeavesOutWhatChangesNothing) {
  SampleRandom random(1, 0, 0);
  EXPECT_TRUE(get_params(ColorJitter{}, random).empty());
  const auto steps = get_params(ColorJitter{.hue = {-0.1, 0.1}}, random);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].adjustment, Adjustment::kHue);
}

}  // namespace
}  // namespace lockstep::data
