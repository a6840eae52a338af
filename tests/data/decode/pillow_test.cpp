// Files of every kind, sound and broken: what we make of them is what Pillow makes of them.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <span>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/data/decode/decode.h"
#include "lockstep/data/transforms/compose.h"
#include "lockstep/data/transforms/geometry.h"
#include "lockstep/data/transforms/get_params.h"
#include "tests/data/files.h"
#include "tests/data/pictures.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

// As Pillow has it, or 0 0 and no pixels if the file is refused.
struct Expected {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::string pixels;
};

void compare(const std::string& path, const Expected& expected) {
  const std::string file = read_file(path);
  if (expected.width == 0) {
    EXPECT_THROW((void)decode_image(file_bytes(file)), IoError) << path;
    return;
  }
  try {
    const Image image = decode_image(file_bytes(file));
    EXPECT_EQ(image.width, expected.width) << path;
    EXPECT_EQ(image.height, expected.height) << path;
    EXPECT_TRUE(pixels_text(image) == expected.pixels) << path;
  } catch (const IoError& error) {
    ADD_FAILURE() << path << ": " << error.what();
  }
}

TEST(Pillow, GivesTheSamePixelsAndRefusesTheSameFiles) {
  const test::TemporaryFolder folder;
  test::run_python("data/decode/pillow_images.py", {folder.file("")});
  std::ifstream list(folder.file("list"));
  int accepted = 0;
  int refused = 0;
  int turned = 0;
  Expected expected;
  for (std::string name; list >> name >> expected.width >> expected.height;) {
    const std::string path = folder.file(name);
    expected.pixels = expected.width > 0 ? read_file(path + ".rgb") : "";
    compare(path, expected);
    ++(expected.width > 0 ? accepted : refused);
    if (name.starts_with("exif")) {
      const Image image =
          decode_image(file_bytes(read_file(path)), {.apply_exif_orientation = true});
      EXPECT_TRUE(pixels_text(image) == read_file(path + ".turned")) << path;
      ++turned;
    }
  }
  EXPECT_EQ(accepted + refused, 519);
  EXPECT_GT(accepted, 300);
  EXPECT_GT(refused, 100);
  EXPECT_EQ(turned, 20);
}

// 255^2 over the mean square of differences, in decibels.
double psnr(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = (static_cast<double>(a[i]) - static_cast<double>(b[i])) * 255;
    sum += difference * difference;
  }
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.size()) / sum);
}

TEST(Pillow, FastDecodesAtASmallerScaleIfThePartShrinks) {
  const test::TemporaryFolder folder;
  test::run_python("data/decode/photos.py", {folder.file("")});
  const std::string file = read_file(folder.file("0.jpg"));  // 640x480 pixels.
  const auto width = [&](Size size, bool fast) {
    const auto choose = [&](Size image) {
      return WantedPart{.box = {.width = image.width, .height = image.height}, .size = size};
    };
    const DecodedPart part = decode_part(file_bytes(file), choose, {.fast = fast});
    EXPECT_EQ(part.box.width, static_cast<double>(part.image.width));
    EXPECT_EQ(part.box.height * 4, part.box.width * 3);
    return part.image.width;
  };
  EXPECT_EQ(width({60, 80}, false), 640);
  EXPECT_EQ(width({121, 161}, true), 640);
  EXPECT_EQ(width({120, 160}, true), 320);
  EXPECT_EQ(width({60, 80}, true), 160);
  EXPECT_EQ(width({1, 1}, true), 160) << "an eighth has 60 rows";
}

TEST(Pillow, FastCropsAreNearExactOnesAndExactOnesAreExact) {
  const test::TemporaryFolder folder;
  test::run_python("data/decode/photos.py", {folder.file("")});
  int reduced = 0;
  for (const int photo : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const std::string file = read_file(folder.file(std::to_string(photo) + ".jpg"));
    const Image whole = decode_image(file_bytes(file));
    for (const std::int64_t size : {224, 96, 48, 32, 16, 4}) {
      const Compose compose({RandomResizedCrop{.size = size}, RandomHorizontalFlip{}, ToTensor{}});
      for (std::uint64_t index = 0; index < 6; ++index) {
        const SampleRandom random(1, 0, index);
        const FloatImage expected = compose.apply(whole, random);
        const FloatImage exact = compose.apply_to_file(file_bytes(file), {}, random);
        const FloatImage fast = compose.apply_to_file(file_bytes(file), {.fast = true}, random);
        EXPECT_TRUE(std::ranges::equal(exact.span(), expected.span())) << photo << " " << size;
        EXPECT_GE(psnr(fast.span(), expected.span()), 38) << photo << " " << size << " " << index;
        reduced += std::ranges::equal(fast.span(), expected.span()) ? 0 : 1;
      }
    }
  }
  EXPECT_GT(reduced, 40);
}

// At most the blocks that the box touches and one more on each side, of 16 pixels each.
TEST(Pillow, ASmallPartOfALargeJpegIsAllThatIsDecoded) {
  constexpr std::int64_t kBorder = 4 * 16;
  const test::TemporaryFolder folder;
  test::run_python("data/decode/photos.py", {folder.file("")});
  for (const int photo : {0, 1, 2, 3}) {  // 640 x 480 pixels or more, of each kind.
    const std::string file = read_file(folder.file(std::to_string(photo) + ".jpg"));
    const auto decoded = [&](const WantedPart& wanted, bool fast) {
      const DecodedPart part =
          decode_part(file_bytes(file), [&](Size) { return wanted; }, {.fast = fast});
      return Size{part.image.height, part.image.width};
    };
    const Box small{.left = 300, .top = 201, .width = 40, .height = 30};
    for (const bool fast : {false, true}) {
      const Size size = decoded({.box = small, .size = {30, 40}}, fast);
      EXPECT_LE(size.width, small.width + kBorder) << photo << " " << fast;
      EXPECT_LE(size.height, small.height + kBorder) << photo << " " << fast;
    }
    const Box half{.left = 201, .top = 99, .width = 256, .height = 224};
    const Size size = decoded({.box = half, .size = {56, 64}}, /*fast=*/true);
    EXPECT_LE(size.width, (half.width + kBorder) / 2) << photo;
    EXPECT_LE(size.height, (half.height + kBorder) / 2) << photo;
  }
}

// Every kind of JPEG that libjpeg reads.
TEST(Pillow, PartsOfEveryJpegHaveThePixelsOfTheWhole) {
  const test::TemporaryFolder folder;
  test::run_python("data/decode/pillow_images.py", {folder.file("")});
  std::ifstream list(folder.file("list"));
  std::int64_t width = 0;
  std::int64_t height = 0;
  int files = 0;
  for (std::string name; list >> name >> width >> height;) {
    if (width == 0 || !name.ends_with(".jpg")) {
      continue;
    }
    ++files;
    const std::string file = read_file(folder.file(name));
    const Image whole = decode_image(file_bytes(file));
    for (std::uint64_t index = 0; index < 20; ++index) {
      SampleRandom random(1, 0, index);
      const Box box =
          get_params(RandomResizedCrop{.size = 1, .scale = {0.01, 1}}, {height, width}, random);
      const DecodedPart part = decode_part(file_bytes(file), [&](Size) {
        return WantedPart{.box = box, .size = {box.height, box.width}};
      });
      const Box place{.left = static_cast<std::int64_t>(part.box.left),
                      .top = static_cast<std::int64_t>(part.box.top),
                      .width = box.width,
                      .height = box.height};
      ASSERT_TRUE(pixels_text(crop(part.image, place)) == pixels_text(crop(whole, box)))
          << name << " " << index;
    }
  }
  EXPECT_GT(files, 90);
}

}  // namespace
}  // namespace lockstep::data
