#include "lockstep/data/transforms/normalize.h"

#include <gmock/gmock.h>

#include <vector>

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;

constexpr Normalize kBy{.mean = {0.5F, 0.25F, 0}, .std = {2, 4, 1}};

TEST(Normalize, ATableHoldsWhatEachByteBecomes) {
  NormalizeTable table = to_tensor_table();
  EXPECT_EQ(table[1][51], 0.2F);
  normalize(table, kBy);
  EXPECT_EQ(table[0][255], 0.25F);
  EXPECT_EQ(table[1][255], 0.1875F);
  EXPECT_EQ(table[2][0], 0.0F);
}

TEST(Normalize, FloatsAreChangedByPlane) {
  std::vector<float> planes = {1, 0.5F, 1, 0.25F, 1, 0.5F};
  normalize({1, 2}, planes, kBy);
  EXPECT_THAT(planes, ElementsAre(0.25F, 0, 0.1875F, 0, 1, 0.5F));
}

TEST(Normalize, ARowGoesIntoThreePlanes) {
  const NormalizeTable table = to_tensor_table();
  const std::vector<std::uint8_t> pixels = {255, 0, 51, 0, 255, 0};
  std::vector<float> planes(12, 9.0F);
  write_row(pixels.data(), table, {.size = {2, 2}, .y = 1, .flip = false}, planes);
  EXPECT_THAT(planes, ElementsAre(9, 9, 1, 0, 9, 9, 0, 1, 9, 9, 0.2F, 0));
  write_row(pixels.data(), table, {.size = {2, 2}, .y = 0, .flip = true}, planes);
  EXPECT_THAT(planes, ElementsAre(0, 1, 1, 0, 1, 0, 0, 1, 0, 0.2F, 0.2F, 0));
}

}  // namespace
}  // namespace lockstep::data
