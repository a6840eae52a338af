#include "lockstep/shm/segments/layout.h"

#include <gmock/gmock.h>

namespace lockstep::shm {
namespace {

class ShmLayout : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShmLayout, ::testing::Values(1, 2, 3, 64, 1000, kMaxRanks));

TEST_P(ShmLayout, PartsFollowEachOtherWithRoomForAllRanks) {
  const auto n = static_cast<std::size_t>(GetParam());
  const Layout layout(GetParam(), 100000);
  EXPECT_GE(layout.tables, sizeof(Control));
  EXPECT_GE(layout.letter_boxes, layout.tables + 2 * 2 * n * sizeof(Word));
  EXPECT_GE(layout.staging, layout.letter_boxes + n * sizeof(LetterBox));
  EXPECT_GE(layout.arena, layout.staging + 2 * layout.staging_bytes);
}

TEST_P(ShmLayout, PartsBeginOnPages) {
  const Layout layout(GetParam(), 100000);
  for (const auto offset : {layout.tables, layout.letter_boxes, layout.staging, layout.arena}) {
    EXPECT_EQ(offset % kPage, 0U) << offset;
  }
}

TEST(ShmLayout, WordsOfDifferentWritersShareNoCacheLine) {
  EXPECT_EQ(offsetof(Control, phase) % kLine, 0U);
  EXPECT_EQ(offsetof(Control, sleepers) % kLine, 0U);
  EXPECT_GE(offsetof(Control, sleepers) - offsetof(Control, phase), kLine);
  EXPECT_EQ(offsetof(Control, announcements) % kLine, 0U);
  EXPECT_EQ(offsetof(Control, fate) % kLine, 0U);
  EXPECT_EQ(sizeof(Letter) % kLine, 0U);
  EXPECT_EQ(sizeof(LetterBox) % kLine, 0U);
}

}  // namespace
}  // namespace lockstep::shm
