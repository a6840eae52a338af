#include "lockstep/data/transforms/lazy_image.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/transforms/geometry.h"
#include "lockstep/data/transforms/resample.h"
#include "tests/data/pictures.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// One step after another, with pixels in between: what the lazy picture must come to.
class Eager {
 public:
  explicit Eager(Image image) : image_(std::move(image)) {}
  void crop(const Box& box) { image_ = data::crop(image_, box); }
  void resize(Size size) { image_ = data::resize(image_, size, Interpolation::kBilinear); }
  void flip_horizontally() { image_ = horizontal_flip(image_); }
  void flip_vertically() { image_ = vertical_flip(image_); }
  [[nodiscard]] std::string text() const { return pixels_text(image_); }
  [[nodiscard]] const Image& image() const { return image_; }

 private:
  Image image_;
};

// Steps are numbered; every sequence of four is tried.
template <class Picture>
void step(Picture& picture, int kind) {
  switch (kind) {
    case 0:
      return picture.crop({.left = 2, .top = 1, .width = 9, .height = 7});
    case 1:
      if constexpr (std::is_same_v<Picture, LazyImage>) {
        return picture.resize({12, 15}, Interpolation::kBilinear);
      } else {
        return picture.resize({12, 15});
      }
    case 2:
      return picture.flip_horizontally();
    case 3:
      return picture.flip_vertically();
    default:
      return picture.crop({.left = -3, .top = 2, .width = 14, .height = 9});
  }
}

TEST(LazyImage, GivesWhatOneStepAfterAnotherGives) {
  constexpr int kKinds = 5;
  const Image original = test_picture({20, 25});
  const NormalizeTable table = to_tensor_table();
  for (int sequence = 0; sequence < kKinds * kKinds * kKinds * kKinds; ++sequence) {
    LazyImage lazy(original);
    Eager eager(copy_of(original));
    for (int rest = sequence, i = 0; i < 4; ++i, rest /= kKinds) {
      step(lazy, rest % kKinds);
      step(eager, rest % kKinds);
    }
    const Image& expected = eager.image();
    ASSERT_EQ(lazy.size(), (Size{expected.height, expected.width})) << sequence;
    std::vector<float> planes(expected.bytes());
    std::vector<float> expected_planes(expected.bytes());
    lazy.write(table, planes);
    LazyImage(expected).write(table, expected_planes);
    ASSERT_EQ(planes, expected_planes) << sequence;
    ASSERT_EQ(pixels_text(lazy.take_pixels()), eager.text()) << sequence;
  }
}

TEST(LazyImage, PixelsThatAreGivenBackReplaceWhatWasThere) {
  const Image original = test_picture({20, 25});
  LazyImage lazy(original);
  lazy.flip_horizontally();
  (void)lazy.take_pixels();
  lazy.set_pixels(test_picture({3, 4}));
  EXPECT_EQ(lazy.size(), (Size{3, 4}));
  EXPECT_EQ(pixels_text(lazy.take_pixels()), pixels_text(test_picture({3, 4})));
}

// Of a single column the whole would be 12 GiB.
TEST(LazyImage, OnlyWhatIsCutFromALargeResultIsMade) {
  const Image line = test_picture({65'500, 1});
  LazyImage lazy(line);
  lazy.resize({16'768'000, 256}, Interpolation::kBilinear);
  lazy.crop({.left = 16, .top = 8'383'888, .width = 224, .height = 224});
  const Image middle = lazy.take_pixels();
  // 256 rows for each of the original.
  const Image near = crop(line, {.top = 32'740, .width = 1, .height = 20});
  const Image expected = resize(near, {20 * 256, 256}, Interpolation::kBilinear);
  EXPECT_EQ(
      pixels_text(middle),
      pixels_text(crop(
          expected, {.left = 16, .top = 8'383'888 - 32'740 * 256, .width = 224, .height = 224})));
}

TEST(LazyImage, AResultWithTooManyPixelsIsAFaultOfTheFile) {
  const Image line = test_picture({65'500, 1});
  LazyImage lazy(line);
  lazy.resize({16'768'000, 256}, Interpolation::kBilinear);
  EXPECT_THAT([&] { (void)lazy.take_pixels(); },
              ThrowsMessage<IoError>(HasSubstr("resizing it gives 256x16768000 pixels")));
}

// A box between pixels takes part of those at its border, and nothing beyond them.
TEST(LazyImage, ABoxInFractionsSeesOnlyThePixelsItTouches) {
  Image image = picture_of(std::string(30, '\0') + std::string(30, '\xff'), {2, 10});
  std::fill_n(image.row(0), 30, std::uint8_t{100});
  LazyImage lazy(std::move(image), {.left = 0, .top = 0, .width = 10, .height = 1}, {1, 5},
                 Interpolation::kBilinear);
  EXPECT_EQ(pixels_text(lazy.take_pixels()), std::string(15, 100));
}

}  // namespace
}  // namespace lockstep::data
