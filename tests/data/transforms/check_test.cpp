#include "lockstep/data/transforms/check.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void expect_refused(const Transform& transform, const std::string& part) {
  const std::vector<Transform> transforms = {transform, ToTensor{}};
  EXPECT_THAT([&] { check_transforms(transforms); }, ThrowsMessage<UsageError>(HasSubstr(part)));
}

TEST(CheckTransforms, NamesTheParameterThatMakesNoSense) {
  expect_refused(Resize{.size = 0}, "Resize: size is 0x0, expected at least 1x1");
  expect_refused(Resize{.size = Size{20'000, 20'000}}, "at most 268435456 pixels in all");
  expect_refused(Resize{.size = 9, .max_size = 9}, "max_size is 9, expected more than size");
  expect_refused(Resize{.size = Size{9, 9}, .max_size = 99}, "max_size is given with both sides");
  expect_refused(CenterCrop{.size = {4, -1}}, "CenterCrop: size is 4x-1");
  expect_refused(RandomResizedCrop{.size = 4, .scale = {0.5, 1.5}},
                 "RandomResizedCrop: scale is {0.5, 1.5}, expected {low, high}");
  expect_refused(RandomResizedCrop{.size = 4, .ratio = {0, 1}}, "ratio is {0.0, 1.0}");
  expect_refused(RandomHorizontalFlip{.p = 1.5}, "RandomHorizontalFlip: p is 1.5, expected 0 to 1");
  expect_refused(RandomVerticalFlip{.p = -1}, "RandomVerticalFlip: p is -1.0");
  expect_refused(RandomCrop{.size = 4, .padding = {0, -1}}, "padding is negative");
  expect_refused(ColorJitter{.brightness = {1.4, 0.6}}, "ColorJitter: brightness is {1.4, 0.6}");
  expect_refused(ColorJitter{.hue = {-0.6, 0}}, "hue is {-0.6, 0.0}");
  expect_refused(RandAugment{.num_ops = -1}, "num_ops is -1");
  expect_refused(RandAugment{.magnitude = 31}, "magnitude is 31 of 31");
  expect_refused(RandAugment{.interpolation = Interpolation::kBicubic}, "kBicubic");
  expect_refused(Lambda{}, "Lambda: the function is empty");
}

TEST(CheckTransforms, FloatsAreCheckedToo) {
  EXPECT_THAT(
      [&] { check_transforms(std::vector<Transform>{ToTensor{}, Normalize{.std = {1, 0, 1}}}); },
      ThrowsMessage<UsageError>(HasSubstr("std has a 0")));
  EXPECT_THAT([&] { check_transforms(std::vector<Transform>{ToTensor{}, RandomErasing{.p = 2}}); },
              ThrowsMessage<UsageError>(HasSubstr("RandomErasing: p is 2.0")));
}

TEST(CheckTransforms, ToTensorStandsBetweenBytesAndFloats) {
  using Transforms = std::vector<Transform>;
  EXPECT_NO_THROW(check_transforms(Transforms{ToTensor{}}));
  EXPECT_NO_THROW(check_transforms(
      Transforms{CenterCrop{.size = 4}, ToTensor{}, RandomErasing{}, Normalize{}}));
  for (const Transforms& wrong :
       {Transforms{}, Transforms{CenterCrop{.size = 4}}, Transforms{Normalize{}, ToTensor{}},
        Transforms{ToTensor{}, ToTensor{}}, Transforms{ToTensor{}, CenterCrop{.size = 4}}}) {
    EXPECT_THAT([&] { check_transforms(wrong); }, ThrowsMessage<UsageError>(HasSubstr("ToTensor")));
  }
}

}  // namespace
}  // namespace lockstep::data
