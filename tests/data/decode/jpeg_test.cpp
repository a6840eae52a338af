#include "lockstep/data/decode/jpeg.h"

#include <gmock/gmock.h>

#include <string>

#include "lockstep/base/error.h"
#include "tests/data/decode/seeds.h"
#include "tests/data/files.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kMostPixels = 1'000'000;

Image decode_jpeg_text(const std::string& file) {
  return decode_jpeg(file_bytes(file), kMostPixels);
}

TEST(DecodeJpeg, ReadsAllKinds) {
  for (const char* name : {"420", "444-restarts", "progressive", "gray", "exif"}) {
    const Image image = decode_jpeg_text(seed_file(std::string("jpeg/") + name + ".jpg"));
    EXPECT_EQ(image.width, 19) << name;
    EXPECT_EQ(image.height, 11) << name;
  }
  EXPECT_EQ(decode_jpeg_text(seed_file("jpeg/cmyk.jpg")).width, 9);
}

TEST(DecodeJpeg, GrayBecomesThreeEqualBytes) {
  const Image image = decode_jpeg_text(seed_file("jpeg/gray.jpg"));
  int shades = 0;
  for (std::size_t i = 0; i < image.bytes(); i += 3) {
    const std::uint8_t* pixel = image.pixels.get() + i;
    ASSERT_TRUE(pixel[0] == pixel[1] && pixel[1] == pixel[2]);
    shades += i > 0 && pixel[0] != pixel[-1] ? 1 : 0;
  }
  EXPECT_GT(shades, 10);
}

// Nothing is made up for what is missing. The last two bytes only say that the file ends.
TEST(DecodeJpeg, ACutFileIsAnError) {
  for (const char* name : {"420", "444-restarts", "progressive", "cmyk"}) {
    const std::string whole = seed_file(std::string("jpeg/") + name + ".jpg");
    for (std::size_t size = 8; size + 3 < whole.size(); ++size) {
      const std::string part(whole, 0, size);
      ASSERT_THROW(decode_jpeg_text(part), IoError) << name << " cut to " << size;
    }
  }
  const std::string whole = seed_file("jpeg/420.jpg");
  EXPECT_THAT([&] { decode_jpeg_text(whole.substr(0, whole.size() - 5)); },
              ThrowsMessage<IoError>(HasSubstr("JPEG: the data end in row")));
}

TEST(DecodeJpeg, AnEnormousHeaderTakesNoMemory) {
  std::string file = seed_file("jpeg/progressive.jpg");
  file.replace(file.find("\xff\xc2") + 5, 4, "\xea\x60\xea\x60");  // 60,000 twice.
  EXPECT_THAT([&] { decode_jpeg_text(file); },
              ThrowsMessage<IoError>(HasSubstr("says 60000x60000 pixels, expected at most")));
}

TEST(DecodeJpeg, EndlessScansAreRefused) {
  const std::string file = seed_file("jpeg/progressive.jpg");
  const std::size_t last = file.rfind("\xff\xda");
  std::string many = file.substr(0, last);
  for (int i = 0; i < 600; ++i) {
    many += file.substr(last, file.size() - 2 - last);
  }
  EXPECT_THAT([&] { decode_jpeg_text(many + "\xff\xd9"); },
              ThrowsMessage<IoError>(HasSubstr("more than 500 scans")));
}

TEST(DecodeJpeg, OtherDepthsAndChannelsAreNamed) {
  std::string file = seed_file("jpeg/420.jpg");
  const std::size_t frame = file.find("\xff\xc0");
  std::string deep = file;
  deep[frame + 4] = 12;
  EXPECT_THAT([&] { decode_jpeg_text(deep); }, ThrowsMessage<IoError>(HasSubstr("precision 12")));
  EXPECT_THAT([&] { decode_jpeg_text("\xff\xd8\xff\xd9\xff\xd8 and no more"); },
              ThrowsMessage<IoError>(HasSubstr("JPEG: ")));
}

DecodedPart decode_box(const std::string& file, const Box& box, const DecodeOptions& options = {}) {
  return decode_jpeg_part(
      file_bytes(file),
      [&](Size) { return WantedPart{.box = box, .size = {box.height, box.width}}; }, options);
}

std::string box_text(const Image& image, const Box& box) {
  std::string text;
  for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
    text.append(reinterpret_cast<const char*>(image.row(y)) + box.left * 3,
                static_cast<std::size_t>(box.width) * 3);
  }
  return text;
}

TEST(DecodeJpegPart, EveryPartHasThePixelsOfTheWhole) {
  for (const char* name : {"420", "444-restarts", "progressive", "gray", "exif", "cmyk"}) {
    const std::string file = seed_file(std::string("jpeg/") + name + ".jpg");
    const Image whole = decode_jpeg_text(file);
    for (std::int64_t i = 0; i < 400; ++i) {
      const Box box{.left = i % whole.width,
                    .top = i / 7 % whole.height,
                    .width = 1 + i / 3 % (whole.width - i % whole.width),
                    .height = 1 + i / 11 % (whole.height - i / 7 % whole.height)};
      const DecodedPart part = decode_box(file, box);
      const Box place{.left = static_cast<std::int64_t>(part.box.left),
                      .top = static_cast<std::int64_t>(part.box.top),
                      .width = static_cast<std::int64_t>(part.box.width),
                      .height = static_cast<std::int64_t>(part.box.height)};
      ASSERT_EQ(place.width, box.width);
      ASSERT_EQ(place.height, box.height);
      ASSERT_LE(place.left + place.width, part.image.width);
      ASSERT_LE(place.top + place.height, part.image.height);
      ASSERT_EQ(box_text(part.image, place), box_text(whole, box)) << name << " " << i;
    }
  }
}

// However little of it is wanted: the rest of the epoch would see it some day.
TEST(DecodeJpegPart, ACutFileIsAnError) {
  for (const char* name : {"420", "444-restarts", "progressive", "cmyk"}) {
    const std::string whole = seed_file(std::string("jpeg/") + name + ".jpg");
    for (std::size_t size = 8; size + 3 < whole.size(); ++size) {
      ASSERT_THROW(decode_box(whole.substr(0, size), {.width = 1, .height = 1}), IoError)
          << name << " cut to " << size;
    }
  }
}

// In the rows above the part, which are skipped: libjpeg must not go on behind the last byte.
TEST(DecodeJpegPart, AFileThatIsCutAboveThePartSaysWhere) {
  const std::string whole = seed_file("jpeg/444-restarts.jpg");
  const std::size_t scan = whole.find("\xff\xda");
  for (std::size_t size = scan + 16; size < scan + 24; ++size) {
    EXPECT_THAT([&] { decode_box(whole.substr(0, size), {.top = 9, .width = 4, .height = 2}); },
                ThrowsMessage<IoError>(HasSubstr("JPEG: the data end in row 0 of 11")))
        << "cut to " << size << " of " << whole.size();
  }
}

TEST(DecodeJpegPart, FastDecodesASmallPartAtItsFullSize) {
  const std::string file = seed_file("jpeg/444-restarts.jpg");
  const auto choose = [](Size image) {
    return WantedPart{.box = {.width = image.width, .height = image.height}, .size = {1, 2}};
  };
  EXPECT_EQ(decode_jpeg_part(file_bytes(file), choose, {.fast = true}).image.width, 19);
}

TEST(DecodeJpegPart, AnEnormousHeaderIsRefusedBeforeAPartIsChosen) {
  std::string file = seed_file("jpeg/progressive.jpg");
  file.replace(file.find("\xff\xc2") + 5, 4, "\xea\x60\xea\x60");  // 60,000 twice.
  EXPECT_THAT([&] { decode_box(file, {.width = 1, .height = 1}); },
              ThrowsMessage<IoError>(HasSubstr("says 60000x60000 pixels, expected at most")));
}

}  // namespace
}  // namespace lockstep::data
