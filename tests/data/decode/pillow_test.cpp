// Files of every kind, sound and broken: what we make of them is what Pillow makes of them.
#include <gmock/gmock.h>

#include <fstream>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/data/decode/decode.h"
#include "tests/base/child.h"
#include "tests/data/files.h"
#include "tests/data/pictures.h"
#include "tests/python.h"

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

}  // namespace
}  // namespace lockstep::data
