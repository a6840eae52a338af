#include "lockstep/data/decode/image.h"

#include <gmock/gmock.h>

#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(MakeImage, HasRoomForAllPixels) {
  const Image image = make_image(5, 3, 15);
  EXPECT_EQ(image.row_bytes(), 15);
  EXPECT_EQ(image.bytes(), 45);
  EXPECT_EQ(image.row(2), image.pixels.get() + 30);
}

TEST(MakeImage, RefusesSizesBeforeTakingMemory) {
  const auto make = [](std::int64_t width, std::int64_t height, std::int64_t most) {
    return [=] { (void)make_image(width, height, most); };
  };
  EXPECT_THAT(make(5, 3, 14), ThrowsMessage<IoError>(HasSubstr(
                                  "says 5x3 pixels, expected at most 14 in all; resize the file")));
  EXPECT_THAT(make(0, 3, 100), ThrowsMessage<IoError>(HasSubstr("says 0x3 pixels")));
  EXPECT_THAT(make(3, -1, 100), ThrowsMessage<IoError>(HasSubstr("says 3x-1 pixels")));
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(make(kMost, kMost, 100), ThrowsMessage<IoError>(HasSubstr("at most 100")));
}

}  // namespace
}  // namespace lockstep::data
