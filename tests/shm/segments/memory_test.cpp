#include "lockstep/shm/segments/memory.h"

#include <fcntl.h>
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
  std::size_t end_ = granule_up(kLayout.arena + kArena);
};

TEST_F(ShmMemory, AtIsAllOfTheArenaAndNoMore) {
  const std::size_t arena = end_ - kLayout.arena;
  EXPECT_EQ(memory_.at(1, kLayout.arena, arena, 1), base_ + kLayout.arena);
  EXPECT_EQ(memory_.at(1, end_ - 1, 1, 1), base_ + end_ - 1);
  EXPECT_EQ(memory_.at(1, kLayout.arena - 1, 1, 1), nullptr);
  EXPECT_EQ(memory_.at(1, 0, 1, 1), nullptr);
  EXPECT_EQ(memory_.at(1, kLayout.arena, arena + 1, 1), nullptr);
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
  EXPECT_EQ(memory_.received_sizes(1, 0), memory_.sent_sizes(1, 0) + 2);
  EXPECT_EQ(memory_.sent_sizes(1, 1), memory_.sent_sizes(1, 0) + 4);
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
TEST_F(ShmMemoryOfAnother, FirstPieceThatEndsBeforeTheArenaIsRefused) {
  control_.piece_ends[0] = kLayout.arena / kGranule * kGranule;
  expect_refused();
}
TEST_F(ShmMemoryOfAnother, FirstPieceThatIsLargerThanTheSegmentIsRefused) {
  control_.piece_ends[0] = segments_[1].capacity() + kGranule;
  expect_refused();
}
TEST_F(ShmMemoryOfAnother, FirstPieceThatEndsAnywhereIsRefused) {
  control_.piece_ends[0] += kPage;
  expect_refused();
}

// One rank's own memory and, as another process would map it, the same memory of a peer.
class ShmMemoryOfAPeer : public ::testing::Test {
 protected:
  // Rank 1 as this process handed it over.
  static std::vector<Segment> handed_over(std::vector<Segment>& segments) {
    std::vector<Segment> adopted;
    adopted.push_back(Memory::prepare(kLayout, 0, kArena));
    adopted.push_back(Segment::adopt(UniqueFd(::fcntl(segments[1].fd(), F_DUPFD_CLOEXEC, 0)),
                                     sizeof(Control), "rank 1"));
    return adopted;
  }

  std::vector<Segment> segments_ = segments_of(kLayout);
  Memory peers_{kLayout, handed_over(segments_)};
};

TEST_F(ShmMemoryOfAPeer, IsMappedWhenAPlaceIsAskedFor) {
  Memory own(kLayout, std::move(segments_));
  for (const std::size_t mebibytes : {1, 3, 8}) {
    const std::size_t bytes = mebibytes << 20;
    const auto place = own.arena(1).take(bytes, "test");
    std::memset(own.at(1, place, bytes, 1), static_cast<int>(mebibytes), bytes);
    std::byte* seen = peers_.at(1, place, bytes, 1);
    ASSERT_NE(seen, nullptr);
    EXPECT_NE(seen, own.at(1, place, bytes, 1)) << "another mapping";
    EXPECT_EQ(seen[0], static_cast<std::byte>(mebibytes));
    EXPECT_EQ(seen[bytes - 1], static_cast<std::byte>(mebibytes));
  }
}

// The table is the peer's: it may say anything.
TEST_F(ShmMemoryOfAPeer, PiecesThatCannotBeAreNotMapped) {
  auto& ends = reinterpret_cast<Control*>(segments_[1].data())->piece_ends;
  const std::uint64_t first = ends[0];
  for (const std::uint64_t end :
       {std::uint64_t{0}, std::uint64_t{1}, first, first - kGranule, first + 1, first + kPage,
        segments_[1].capacity() + kGranule, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    ends[1] = end;
    EXPECT_EQ(peers_.at(1, first, 1, 1), nullptr) << end;
    EXPECT_EQ(peers_.at(1, first + kGranule, 1, 1), nullptr) << end;
    EXPECT_EQ(peers_.at(1, ~std::uint64_t{0}, 1, 1), nullptr) << end;
  }
  ends[1] = first + kGranule;
  EXPECT_NE(peers_.at(1, first, kGranule, 1), nullptr);
  EXPECT_EQ(peers_.at(1, first, kGranule + 1, 1), nullptr);
}

TEST_F(ShmMemoryOfAPeer, WhatWasMappedStaysWhateverTheTableSaysLater) {
  auto& ends = reinterpret_cast<Control*>(segments_[1].data())->piece_ends;
  const std::uint64_t first = ends[0];
  ends[1] = first + kGranule;
  std::byte* at = peers_.at(1, first, kGranule, 1);
  ASSERT_NE(at, nullptr);
  ends[0] = 0;
  ends[1] = 0;
  EXPECT_EQ(peers_.at(1, first, kGranule, 1), at);
  std::memset(at, 1, kGranule);
}

TEST(ShmMemoryPrepare, WritesTheControlBlock) {
  const Segment segment = Memory::prepare(kLayout, 1, kArena);
  const auto& control = *reinterpret_cast<const Control*>(segment.data());
  EXPECT_EQ(control.magic, kMagic);
  EXPECT_EQ(control.rank, 1U);
  EXPECT_EQ(control.size, 2U);
  EXPECT_EQ(control.staging_bytes, 4096U);
  EXPECT_EQ(control.phase.load(), 0U);
  EXPECT_EQ(segment.bytes(), granule_up(kLayout.arena + kArena));
  EXPECT_EQ(control.piece_ends[0].load(), segment.bytes());
  EXPECT_EQ(control.piece_ends[1].load(), 0U);
}

TEST(ShmMemoryPrepare, ByDefaultAGroupTakesLittleAddressSpace) {
  const TeamOptions usual;
  EXPECT_LT(Memory::prepare(Layout(8, usual.staging_bytes), 0, usual.arena_bytes).bytes(),
            std::size_t{4} << 20);
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
  std::byte* data = first.get();
  auto copy = first;
  first.reset();
  EXPECT_NE(allocate(memory, 0, kArena).get(), data);
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
