#include "lockstep/data/transforms/resample_wide.h"

#include <gmock/gmock.h>

#include <vector>

#include "lockstep/data/transforms/resample_loops.h"
#include "tests/data/pictures.h"

namespace lockstep::data {
namespace {

// A machine without wide vectors has nothing to compare.
TEST(ResampleWide, GivesWhatEveryMachineGives) {
  const ResampleLoops* wide = wide_resample_loops();
  if (wide == nullptr) {
    return;
  }
  const Image image = test_picture({9, 101});
  const auto row = [&](std::int64_t y) {
    return std::span<const std::uint8_t>(image.row(y), image.row_bytes());
  };
  for (std::int32_t count = 1; count < 9; ++count) {
    Weights weights{.count = count};
    for (std::int32_t x = 0; x < 40; ++x) {
      weights.first.push_back(x * 2);
      for (std::int32_t k = 0; k < count; ++k) {
        weights.weights.push_back((x * 7919 + k * 104729) % (1 << kWeightBits) - (1 << 20));
      }
    }
    std::vector<PixelPair> pixels(101);
    std::vector<std::uint8_t> ours(2 * 121);
    std::vector<std::uint8_t> others(2 * 121);
    resample_rows({row(0), row(1)}, weights, pixels.data(), {&ours[0], &ours[121]});
    wide->resample_rows({row(0), row(1)}, weights, pixels.data(), {&others[0], &others[121]});
    EXPECT_EQ(ours, others) << count;

    std::vector<const std::uint8_t*> rows;
    for (std::int32_t k = 0; k < count; ++k) {
      rows.push_back(image.row(k));
    }
    std::vector<std::uint8_t> blended(image.row_bytes());
    std::vector<std::uint8_t> other_blended(image.row_bytes());
    blend_rows(rows, weights.weights.data(), blended);
    wide->blend_rows(rows, weights.weights.data(), other_blended);
    EXPECT_EQ(blended, other_blended) << count;
  }
}

}  // namespace
}  // namespace lockstep::data
