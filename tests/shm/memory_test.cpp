#include "lockstep/shm/memory.h"

#include <gmock/gmock.h>

#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::size_t kArena = 16 * kPage;
const Layout kLayout(2, 4096);

std::vector<Segment> segments_of(const Layout& layout) {
  std::vector<Segment> segments;
  for (int rank = 0; rank < layout.size; ++rank) {
    segments.push_back(Memory::prepare(layout, rank, kArena));
  }
  return segments;
}

class ShmMemory : public ::testing::Test {
 protected:
  Memory memory_{kLayout, segments_of(kLayout)};
  std::byte* base_ = reinterpret_cast<std::byte*>(&memory_.control(1));
  std::size_t end_ = kLayout.arena + kArena;
};

TEST_F(ShmMemory, AtIsAllOfTheArenaAndNoMore) {
  EXPECT_EQ(memory_.at(1, kLayout.arena, kArena, 1), base_ + kLayout.arena);
  EXPECT_EQ(memory_.at(1, end_ - 1, 1, 1), base_ + end_ - 1);
  EXPECT_EQ(memory_.at(1, kLayout.arena - 1, 1, 1), nullptr);
  EXPECT_EQ(memory_.at(1, 0, 1, 1), nullptr);
  EXPECT_EQ(memory_.at(1, kLayout.arena, kArena + 1, 1), nullptr);
  EXPECT_EQ(memory_.at(1, end_ - 1, 2, 1), nullptr);
  EXPECT_EQ(memory_.at(1, end_ + 1, 0, 1), nullptr);
}

TEST_F(ShmMemory, AtRefusesNumbersThatOverflow) {
  constexpr auto kMost = ~std::uint64_t{0};
  EXPECT_EQ(memory_.at(1, kMost, 1, 1), nullptr);
  EXPECT_EQ(memory_.at(1, kMost, kMost, 1), nullptr);
  EXPECT_EQ(memory_.at(1, kLayout.arena, kMost, 1), nullptr);
  EXPECT_EQ(memory_.at(1, kMost - kLayout.arena + 1, kLayout.arena, 1), nullptr);
}

TEST_F(ShmMemory, AtRefusesWhatIsNotAligned) {
  for (const std::size_t alignment : {2, 4, 8, 16}) {
    EXPECT_NE(memory_.at(1, kLayout.arena + alignment, 1, alignment), nullptr) << alignment;
    EXPECT_EQ(memory_.at(1, kLayout.arena + alignment / 2, 1, alignment), nullptr) << alignment;
  }
}

TEST_F(ShmMemory, PlaceOfFindsWhatAtGives) {
  for (const std::size_t place : {kLayout.arena, kLayout.arena + 5, end_ - 1}) {
    EXPECT_EQ(memory_.place_of(1, memory_.at(1, place, 1, 1), 1), place);
  }
}

TEST_F(ShmMemory, PlaceOfOtherMemoryIsZero) {
  std::byte other{};
  EXPECT_EQ(memory_.place_of(1, &other, 1), 0U);
  EXPECT_EQ(memory_.place_of(1, nullptr, 0), 0U);
  EXPECT_EQ(memory_.place_of(1, base_, 1), 0U) << "control block";
  EXPECT_EQ(memory_.place_of(1, base_ + kLayout.arena - 1, 1), 0U) << "staging buffer";
  EXPECT_EQ(memory_.place_of(0, base_ + kLayout.arena, 1), 0U) << "another rank's arena";
  EXPECT_EQ(memory_.place_of(1, base_ + end_, 0), 0U) << "past the end";
  EXPECT_EQ(memory_.place_of(1, base_ + end_ - 1, 2), 0U) << "over the end";
  EXPECT_EQ(memory_.place_of(1, base_ + kLayout.arena, ~std::size_t{0}), 0U) << "overflow";
}

TEST_F(ShmMemory, PartsOfTurnsAndRanksDoNotOverlap) {
  EXPECT_EQ(memory_.staging(1, 0), base_ + kLayout.staging);
  EXPECT_EQ(memory_.staging(1, 1), base_ + kLayout.staging + kLayout.staging_bytes);
  EXPECT_EQ(memory_.staging(1, 2), memory_.staging(1, 0));
  EXPECT_EQ(memory_.taken(1, 0), memory_.given(1, 0) + 2);
  EXPECT_EQ(memory_.given(1, 1), memory_.given(1, 0) + 4);
  EXPECT_EQ(&memory_.letter_box(1, 1), &memory_.letter_box(1, 0) + 1);
  EXPECT_LE(reinterpret_cast<std::byte*>(&memory_.letter_box(1, 1) + 1), base_ + kLayout.staging);
}

// What a segment must not differ in.
class ShmMemoryOfAnother : public ::testing::Test {
 protected:
  std::vector<Segment> segments_ = segments_of(kLayout);
  Control& control_ = *reinterpret_cast<Control*>(segments_[1].data());

  void expect_refused() {
    EXPECT_THAT([&] { Memory(kLayout, std::move(segments_)); },
                ThrowsMessage<PeerError>(
                    AllOf(HasSubstr("the segment of rank 1"), HasSubstr("another way"))));
  }
};

TEST_F(ShmMemoryOfAnother, MagicIsRefused) {
  control_.magic ^= 1;
  expect_refused();
}
TEST_F(ShmMemoryOfAnother, VersionIsRefused) {
  control_.version += 1;
  expect_refused();
}
TEST_F(ShmMemoryOfAnother, RankIsRefused) {
  control_.rank = 0;
  expect_refused();
}
TEST_F(ShmMemoryOfAnother, WorldSizeIsRefused) {
  control_.size = 3;
  expect_refused();
}
TEST_F(ShmMemoryOfAnother, StagingSizeIsRefused) {
  control_.staging_bytes *= 2;
  expect_refused();
}
TEST_F(ShmMemoryOfAnother, SegmentWithoutAnArenaIsRefused) {
  Segment small = Segment::create(kLayout.arena);
  std::memcpy(small.data(), segments_[1].data(), sizeof(Control));
  segments_[1] = std::move(small);
  expect_refused();
}

TEST(ShmMemoryPrepare, WritesTheControlBlock) {
  const Segment segment = Memory::prepare(kLayout, 1, kArena);
  const auto& control = *reinterpret_cast<const Control*>(segment.data());
  EXPECT_EQ(control.magic, kMagic);
  EXPECT_EQ(control.rank, 1U);
  EXPECT_EQ(control.size, 2U);
  EXPECT_EQ(control.staging_bytes, 4096U);
  EXPECT_EQ(control.phase.load(), 0U);
  EXPECT_EQ(segment.bytes(), kLayout.arena + kArena);
}

TEST(ShmMemoryPrepare, ByDefaultTheArenaIsAsLargeAsTheMachine) {
  EXPECT_GT(Memory::prepare(kLayout, 0, 0).bytes(), std::size_t{1} << 30);
}

TEST(ShmMemoryPrepare, BuffersThatDoNotFitTheMachineAreAnIoErrorThatNamesTheRank) {
  EXPECT_THAT([] { Memory::prepare(Layout(2, free_memory().bytes), 1, kArena); },
              ThrowsMessage<IoError>(
                  AllOf(HasSubstr("rank 1 of 2"), HasSubstr(" of shared memory are needed, "))));
}

TEST(ShmAllocate, GivesMemoryOfTheRanksArena) {
  const auto teams = Team::in_process(2, testing::small_options());
  const auto piece = allocate(teams[1]->memory(), 1, 1000);
  EXPECT_NE(teams[0]->memory()->place_of(1, piece.get(), 1000), 0U);
  EXPECT_EQ(teams[0]->memory()->place_of(0, piece.get(), 1000), 0U);
}

TEST(ShmAllocate, GivesBackWithTheLastPointer) {
  const auto memory = std::make_shared<Memory>(kLayout, segments_of(kLayout));
  auto first = allocate(memory, 0, kArena);
  EXPECT_THROW(allocate(memory, 0, 1), IoError);
  auto copy = first;
  first.reset();
  EXPECT_THROW(allocate(memory, 0, 1), IoError);
  std::byte* data = copy.get();
  copy.reset();
  EXPECT_EQ(allocate(memory, 0, kArena).get(), data);
}

TEST(ShmAllocate, OutlivesTheTeam) {
  auto teams = Team::in_process(2, testing::small_options());
  auto piece = allocate(teams[0]->memory(), 0, 1000);
  teams.clear();
  std::memset(piece.get(), 1, 1000);
  EXPECT_EQ(piece.get()[999], std::byte{1});
  piece.reset();
}

}  // namespace
}  // namespace lockstep::shm
