#include "lockstep/data/transforms/compose.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/transforms/color.h"
#include "lockstep/data/transforms/geometry.h"
#include "lockstep/data/transforms/get_params.h"
#include "lockstep/data/transforms/lazy_image.h"
#include "lockstep/data/transforms/rand_augment.h"
#include "tests/data/files.h"
#include "tests/data/pictures.h"

namespace lockstep::data {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Normalize kNormalize{.mean = kImageNetMean, .std = kImageNetStd};

std::vector<float> apply(const Compose& compose, const Image& image, const SampleRandom& random) {
  const FloatImage result = compose.apply(image, random);
  return {result.span().begin(), result.span().end()};
}

TEST(Compose, KnowsTheSizeOfTheResult) {
  const auto size_of = [](std::vector<Transform> transforms) {
    transforms.emplace_back(ToTensor{});
    return Compose(std::move(transforms)).output_size();
  };
  EXPECT_EQ(size_of({RandomResizedCrop{.size = 224}}), Size(224));
  EXPECT_EQ(size_of({Resize{.size = 256}, CenterCrop{.size = {3, 4}}}), Size(3, 4));
  EXPECT_EQ(size_of({RandomCrop{.size = 32, .padding = 4}, RandomHorizontalFlip{}}), Size(32));
  EXPECT_EQ(size_of({Resize{.size = Size{5, 6}}}), Size(5, 6));
  EXPECT_EQ(size_of({CenterCrop{.size = {10, 20}}, Resize{.size = 5}}), Size(5, 10));
  EXPECT_EQ(size_of({Resize{.size = 256}}), std::nullopt);
  EXPECT_EQ(size_of({}), std::nullopt);
  EXPECT_EQ(
      size_of({CenterCrop{.size = 4}, Lambda{[](Image image, SampleRandom&) { return image; }}}),
      std::nullopt);
}

TEST(Compose, ATrainingCropIsCutResizedFlippedAndNormalised) {
  const Image image = test_picture({60, 80});
  const RandomResizedCrop crop{.size = {16, 20}};
  const Compose compose({crop, RandomHorizontalFlip{}, ToTensor{}, kNormalize});
  std::set<bool> flips;
  for (std::uint64_t index = 0; index < 20; ++index) {
    SampleRandom random(5, 2, index);
    LazyImage lazy(image);
    lazy.crop(get_params(crop, {60, 80}, random));
    lazy.resize(crop.size, Interpolation::kBilinear);
    const bool flip = random.uniform() < 0.5;
    if (flip) {
      lazy.flip_horizontally();
    }
    flips.insert(flip);
    NormalizeTable table = to_tensor_table();
    normalize(table, kNormalize);
    std::vector<float> expected(std::size_t{3} * 16 * 20);
    lazy.write(table, expected);
    std::vector<float> got(expected.size());
    compose.apply(image, SampleRandom(5, 2, index), got);
    ASSERT_EQ(got, expected) << index;
  }
  EXPECT_EQ(flips.size(), 2U);
}

// Each sample must have the pixels that `by_hand` makes of the picture with the sample's numbers.
template <class ByHand>
void expect_by_hand(const Transform& transform, const ByHand& by_hand) {
  const Compose compose({CenterCrop{{30, 40}}, transform, ToTensor{}});
  const Image picture = test_picture({48, 52});
  const Box middle = get_params(CenterCrop{{30, 40}}, {48, 52});
  for (std::uint64_t index = 0; index < 40; ++index) {
    SampleRandom random(5, 2, index);
    const Image expected = by_hand(crop(picture, middle), random);
    ASSERT_EQ(apply(compose, picture, SampleRandom(5, 2, index)),
              apply(Compose({ToTensor{}}), expected, random))
        << index;
  }
}

TEST(Compose, AVerticalFlipComesAsOftenAsItIsAskedFor) {
  int flips = 0;
  expect_by_hand(RandomVerticalFlip{.p = 0.3}, [&](Image image, SampleRandom& random) {
    const bool flip = random.uniform() < 0.3;
    flips += flip ? 1 : 0;
    return flip ? vertical_flip(image) : std::move(image);
  });
  EXPECT_GT(flips, 0);
  EXPECT_LT(flips, 40);
}

TEST(Compose, ColoursAreChangedInTheOrderThatIsDrawn) {
  const ColorJitter jitter{.brightness = {0.5, 1.5},
                           .contrast = {0.4, 1.7},
                           .saturation = {0.2, 1.9},
                           .hue = {-0.3, 0.3}};
  std::set<std::vector<Adjustment>> orders;
  expect_by_hand(jitter, [&](Image image, SampleRandom& random) {
    std::vector<Adjustment> order;
    for (const auto& [adjustment, factor] : get_params(jitter, random)) {
      order.push_back(adjustment);
      if (adjustment == Adjustment::kBrightness) {
        adjust_brightness(image, factor);
      } else if (adjustment == Adjustment::kContrast) {
        adjust_contrast(image, factor);
      } else if (adjustment == Adjustment::kSaturation) {
        adjust_saturation(image, factor);
      } else {
        adjust_hue(image, factor);
      }
    }
    orders.insert(order);
    return image;
  });
  EXPECT_GT(orders.size(), 12U);
}

// How far it moves a picture depends on the size that the picture has by then.
TEST(Compose, RandAugmentDoesTheOperationsThatAreDrawn) {
  const RandAugment augment{.num_ops = 3,
                            .magnitude = 20,
                            .interpolation = Interpolation::kBilinear,
                            .fill = {9, 99, 199}};
  std::set<AugmentOp> ops;
  expect_by_hand(augment, [&](Image image, SampleRandom& random) {
    for (const AugmentStep& step : get_params(augment, {30, 40}, random)) {
      ops.insert(step.op);
      image = apply(step, augment, std::move(image));
    }
    return image;
  });
  EXPECT_EQ(ops.size(), static_cast<std::size_t>(kAugmentOps));
}

// A sample's numbers are the same, whichever worker does it and whatever was done before.
TEST(Compose, NumbersDependOnTheSampleAlone) {
  const Image image = test_picture({40, 50});
  const Compose compose({RandomResizedCrop{.size = 16}, RandomHorizontalFlip{},
                         ColorJitter{.brightness = {0.6, 1.4}, .hue = {-0.1, 0.1}}, RandAugment{},
                         ToTensor{}, kNormalize, RandomErasing{.value = std::nullopt}});
  constexpr std::size_t kSamples = 24;
  std::vector<std::vector<float>> alone;
  for (std::size_t i = 0; i < kSamples; ++i) {
    alone.push_back(apply(compose, image, SampleRandom(1, 0, i)));
  }
  std::vector<std::vector<float>> together(kSamples);
  std::atomic<std::size_t> next = 0;
  {
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < 3; ++worker) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < kSamples; i = next++) {
          together[i] = apply(compose, image, SampleRandom(1, 0, i));
        }
      });
    }
  }
  EXPECT_EQ(together, alone);
  EXPECT_EQ(std::set(alone.begin(), alone.end()).size(), kSamples);
  EXPECT_NE(apply(compose, image, SampleRandom(1, 1, 0)), alone[0]);
}

TEST(Compose, ErasingWritesItsValueOrNoise) {
  const Image image = test_picture({40, 50});
  const std::vector<float> plain =
      apply(Compose({ToTensor{}, kNormalize}), image, SampleRandom(1, 0, 0));
  const auto changed = [&](const RandomErasing& erasing) {
    const auto erased =
        apply(Compose({ToTensor{}, kNormalize, erasing}), image, SampleRandom(1, 0, 0));
    std::vector<float> values;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      if (plain[i] != erased[i]) {
        values.push_back(erased[i]);
      }
    }
    return values;
  };
  const auto values = changed({.p = 1, .value = std::array<float, 3>{7, 7, 7}});
  EXPECT_GT(values.size(), 3 * 2000 * 0.02 * 0.8);
  EXPECT_LT(values.size(), 3 * 2000 * 0.33 * 1.2);
  EXPECT_THAT(values, Each(7.0F));
  const auto noise = changed({.p = 1, .value = std::nullopt});
  EXPECT_EQ(noise.size(), values.size());
  EXPECT_GT(std::set(noise.begin(), noise.end()).size(), noise.size() / 2);
  EXPECT_TRUE(changed({.p = 0}).empty());
}

TEST(Compose, NormalizeBehindErasingTakesFloats) {
  const Image image = test_picture({40, 50});
  const Normalize half{.mean = {0, 0, 0}, .std = {2, 2, 2}};
  const RandomErasing erase{.p = 1, .value = std::array<float, 3>{7, 7, 7}};
  auto expected = apply(Compose({ToTensor{}, erase}), image, SampleRandom(1, 0, 0));
  for (float& value : expected) {
    value /= 2;
  }
  EXPECT_EQ(apply(Compose({ToTensor{}, erase, half}), image, SampleRandom(1, 0, 0)), expected);
}

TEST(Compose, AFileGivesWhatItsPictureGives) {
  const Image image = test_picture({30, 40});
  const std::string file = "P6 40 30 255\n" + pixels_text(image);
  const Compose compose({RandomResizedCrop{.size = 16}, ToTensor{}});
  for (std::uint64_t i = 0; i < 10; ++i) {
    std::vector<float> from_file(std::size_t{3} * 16 * 16);
    compose.apply_to_file(file_bytes(file), {}, SampleRandom(1, 0, i), from_file);
    EXPECT_EQ(from_file, apply(compose, image, SampleRandom(1, 0, i)));
  }
  EXPECT_THROW((void)compose.apply_to_file(file_bytes("no picture"), {}, SampleRandom(1, 0, 0)),
               IoError);
}

TEST(Compose, OnesOwnFunctionCanDoAnything) {
  const Compose compose(
      {Lambda{[](Image, SampleRandom& random) { return test_picture({1 + random.below(1), 2}); }},
       ToTensor{}});
  EXPECT_EQ(compose.apply(test_picture(9), SampleRandom(1, 0, 0)).size, Size(1, 2));
}

TEST(Compose, RoomThatDoesNotFitIsRefused) {
  const Image image = test_picture({40, 50});
  std::vector<float> out(10);
  EXPECT_THAT([&] { Compose({CenterCrop{.size = 4}, ToTensor{}}).apply(image, {1, 0, 0}, out); },
              ThrowsMessage<UsageError>(HasSubstr("room for 10 floats, expected 48")));
  EXPECT_THAT([&] { Compose({ToTensor{}}).apply(image, {1, 0, 0}, out); },
              ThrowsMessage<UsageError>(HasSubstr("depends on the picture")));
}

TEST(Compose, ARandomCropPadsOneSideAfterAnother) {
  const Image picture = test_picture({5, 6});
  const auto mode = PaddingMode::kReflect;
  const RandomCrop crop{
      .size = {20, 21}, .padding = {1, 2, 3, 4}, .pad_if_needed = true, .padding_mode = mode};
  Image padded = pad(picture, crop.padding, mode);  // 11 x 10.
  padded = pad(padded, {11, 0}, mode);              // 11 x 32.
  padded = pad(padded, {0, 9}, mode);               // 29 x 32.
  const SampleRandom random(1, 2, 3);
  const Compose expected({RandomCrop{.size = crop.size}, ToTensor{}});
  const FloatImage want = expected.apply(padded, random);
  const FloatImage got = Compose({crop, ToTensor{}}).apply(picture, random);
  EXPECT_TRUE(std::ranges::equal(got.span(), want.span()));
}

}  // namespace
}  // namespace lockstep::data
