#include "lockstep/shm/segments/arena.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <random>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"
#include "lockstep/shm/segments/layout.h"

namespace lockstep::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kBegin = 4 * kPage;

class ShmArena : public ::testing::Test {
 protected:
  Segment segment_ = Segment::create(256 * kMiB);
  std::array<Word, kMaxPieces> ends_{};
  Arena arena_{segment_, kBegin, ends_.data()};

  std::size_t take(std::size_t bytes) { return arena_.take(bytes, "test"); }
  // Memory of the machine that the segment holds.
  [[nodiscard]] std::size_t backed() const {
    struct stat info{};
    ::fstat(segment_.fd(), &info);
    return static_cast<std::size_t>(info.st_blocks) * 512;
  }
};

TEST_F(ShmArena, PiecesAreWholePagesThatDoNotOverlap) {
  EXPECT_EQ(take(1), kBegin);
  EXPECT_EQ(take(0), kBegin + kPage);
  EXPECT_EQ(take(kPage), kBegin + 2 * kPage);
  EXPECT_EQ(take(kPage + 1), kBegin + 3 * kPage);
  EXPECT_EQ(take(1), kBegin + 5 * kPage);
}

TEST_F(ShmArena, TakesNoMoreOfTheMachineThanWasAskedFor) {
  take(3 * kPage);
  EXPECT_EQ(backed(), 3 * kPage);
}

TEST_F(ShmArena, TellsWhatItHandedOutAndWhatItHolds) {
  const auto expect = [&](std::size_t allocated) {
    EXPECT_EQ(arena_.memory_use().allocated_bytes, allocated);
    EXPECT_EQ(arena_.memory_use().reserved_bytes, backed());
  };
  expect(0);
  const auto small = take(kMiB);
  const auto large = take(40 * kMiB);
  take(kPage);
  expect(41 * kMiB + kPage);
  arena_.give_back(small);
  expect(40 * kMiB + kPage);
  arena_.give_back(large);
  expect(kPage);
  EXPECT_EQ(backed(), kMiB + kPage);
  take(300 * kMiB);
  expect(300 * kMiB + kPage);
}

TEST_F(ShmArena, APieceThatCameBackIsHandedOutAgain) {
  const auto first = take(10 * kPage);
  take(kPage);
  arena_.give_back(first);
  EXPECT_EQ(take(10 * kPage), first);
  EXPECT_EQ(backed(), 11 * kPage);
}

TEST_F(ShmArena, NeighboursAreMergedInWhateverOrderTheyComeBack) {
  std::vector<int> order{0, 1, 2};
  do {
    Segment small = Segment::create(kGranule);
    Arena arena(small, kGranule - 3 * kPage, ends_.data());
    std::vector<std::size_t> blocks;
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(arena.take(kPage, "test"));
    }
    for (const int i : order) {
      arena.give_back(blocks[static_cast<std::size_t>(i)]);
    }
    EXPECT_EQ(arena.take(3 * kPage, "test"), kGranule - 3 * kPage);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(ShmArena, APieceIsGivenBackOnce) {
  const auto first = take(kPage);
  arena_.give_back(first);
  arena_.give_back(first);
  arena_.give_back(12345);
  EXPECT_EQ(take(kPage), first);
  EXPECT_NE(take(kPage), first);
}

TEST_F(ShmArena, SmallPiecesAreKept) {
  arena_.give_back(take(32 * kMiB));
  EXPECT_EQ(backed(), 32 * kMiB);
}

TEST_F(ShmArena, LargePiecesGoBackToTheMachine) {
  arena_.give_back(take(33 * kMiB));
  EXPECT_EQ(backed(), 0U);
}

TEST_F(ShmArena, WhatWentBackToTheMachineIsTakenAgain) {
  const auto first = take(33 * kMiB);
  arena_.give_back(first);
  EXPECT_EQ(take(33 * kMiB), first);
  EXPECT_EQ(backed(), 33 * kMiB);
}

// A page without memory would be taken when it is touched, where running out is a signal.
TEST_F(ShmArena, EveryPageOfAPieceHasMemoryAfterLargePiecesCameAndWent) {
  arena_.give_back(take(64 * kMiB));
  arena_.give_back(take(40 * kMiB));
  take(33 * kMiB);
  take(20 * kMiB);
  take(11 * kMiB);
  EXPECT_EQ(backed(), 64 * kMiB);
}

TEST_F(ShmArena, LargePiecesHaveAllTheirMemoryAndNoMoreWhateverCameBefore) {
  std::mt19937 random(1);
  std::vector<std::pair<std::size_t, std::size_t>> pieces;
  std::size_t taken = 0;
  for (int i = 0; i < 100; ++i) {
    if (!pieces.empty() && (taken > 100 * kMiB || random() % 2 == 0)) {
      std::swap(pieces.back(), pieces[random() % pieces.size()]);
      arena_.give_back(pieces.back().first);
      taken -= pieces.back().second;
      pieces.pop_back();
    } else {
      const std::size_t size = (random() % 20 + 33) * kMiB;
      pieces.emplace_back(take(size), size);
      taken += size;
      for (const auto& [offset, bytes] : pieces) {
        ASSERT_TRUE(offset == pieces.back().first || offset + bytes <= pieces.back().first ||
                    pieces.back().first + size <= offset);
      }
    }
    ASSERT_EQ(backed(), taken) << i;
  }
  for (const auto& piece : pieces) {
    arena_.give_back(piece.first);
  }
  EXPECT_EQ(take(segment_.bytes() - kBegin), kBegin);
}

TEST_F(ShmArena, TooLargeForASegmentIsAnIoErrorThatNamesBothSizes) {
  EXPECT_THAT([&] { arena_.take(segment_.capacity(), "allocating on rank 1"); },
              ThrowsMessage<IoError>(AllOf(StartsWith("allocating on rank 1: "),
                                           HasSubstr(size_text(segment_.capacity())))));
}

TEST_F(ShmArena, SizesThatOverflowAreIoErrors) {
  for (const std::size_t bytes : {~std::size_t{0}, ~std::size_t{0} - kPage, std::size_t{1} << 63}) {
    EXPECT_THROW(take(bytes), IoError) << bytes;
  }
}

TEST_F(ShmArena, MoreThanTheMachineHasIsAnIoErrorAndTakesNothing) {
  const std::size_t absurd = 2 * free_memory().bytes;
  EXPECT_THAT([&] { take(absurd); },
              ThrowsMessage<IoError>(AllOf(HasSubstr(" of shared memory are needed, "),
                                           HasSubstr("are free in " + free_memory().limited_by))));
  EXPECT_EQ(backed(), 0U);
  EXPECT_EQ(segment_.pieces(), 1U) << "address space was taken";
  EXPECT_EQ(take(1), kBegin);
}

class ShmArenaGrowth : public ::testing::Test {
 protected:
  Segment segment_ = Segment::create(kMiB);
  std::array<Word, kMaxPieces> ends_{};
  Arena arena_{segment_, kBegin, ends_.data()};

  std::size_t take(std::size_t bytes) { return arena_.take(bytes, "test"); }
  [[nodiscard]] std::size_t backed() const {
    struct stat info{};
    ::fstat(segment_.fd(), &info);
    return static_cast<std::size_t>(info.st_blocks) * 512;
  }
};

TEST_F(ShmArenaGrowth, WhatDoesNotFitGetsAPieceThatPeersAreTold) {
  take(kMiB - kBegin);
  const auto block = take(5 * kMiB);
  EXPECT_EQ(block, kMiB);
  EXPECT_EQ(segment_.pieces(), 2U);
  EXPECT_EQ(ends_[1].load(), 6 * kMiB);
  EXPECT_EQ(backed(), 6 * kMiB - kBegin);
  std::fill_n(segment_.at(block, 5 * kMiB), 5 * kMiB, std::byte{1});
}

TEST_F(ShmArenaGrowth, ManySmallBlocksTakeFewPieces) {
  for (int i = 0; i < 2000; ++i) {
    take(10 * kPage);
  }
  EXPECT_LE(segment_.pieces(), 12U);
  EXPECT_LE(segment_.bytes(), 2 * std::size_t{2000} * 10 * kPage);
}

TEST_F(ShmArenaGrowth, NoBlockReachesOverTheEndOfAPiece) {
  const auto first = take(kMiB - kBegin);
  const auto second = take(kMiB);
  ASSERT_EQ(first + kMiB - kBegin, second) << "neighbours in the segment";
  arena_.give_back(first);
  arena_.give_back(second);
  const auto both = take(kMiB + kPage);
  EXPECT_NE(segment_.at(both, kMiB + kPage), nullptr);
  EXPECT_EQ(both, 2 * kMiB);
  // In the other order too.
  arena_.give_back(both);
  EXPECT_EQ(take(kMiB - kBegin), first);
  EXPECT_EQ(take(kMiB), second);
  arena_.give_back(second);
  arena_.give_back(first);
  EXPECT_EQ(take(kMiB + kPage), both);
}

// A page without memory would be taken when it is touched, where running out is a signal.
TEST_F(ShmArenaGrowth, WhatWasLeftOfAPieceHasMemoryWhenItIsHandedOut) {
  take(kPage);
  take(8 * kMiB);  // Leaves most of the first piece.
  EXPECT_EQ(backed(), 8 * kMiB + kPage);
  take(kMiB - kBegin - kPage);
  EXPECT_EQ(segment_.pieces(), 2U);
  EXPECT_EQ(backed(), 9 * kMiB - kBegin);
}

TEST_F(ShmArenaGrowth, ALargeBlockOfALaterPieceGoesBackToTheMachineAndItsPlaceIsUsedAgain) {
  const auto block = take(40 * kMiB);
  take(kMiB);
  arena_.give_back(block);
  EXPECT_LE(backed(), kMiB);
  EXPECT_EQ(take(40 * kMiB), block);
  EXPECT_EQ(backed(), 41 * kMiB);
}

TEST(ShmArenaGrowthWithoutAddressSpace, IsAnIoErrorThatTakesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    Segment segment = Segment::create(kMiB);
    std::array<Word, kMaxPieces> ends{};
    Arena arena(segment, kBegin, ends.data());
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + 32 * kMiB;
    const rlimit both{.rlim_cur = limit, .rlim_max = limit};
    ::setrlimit(RLIMIT_AS, &both);
    std::string error;
    try {
      arena.take(64 * kMiB, "test");
    } catch (const IoError& caught) {
      error = caught.what();
    }
    struct stat info{};
    ::fstat(segment.fd(), &info);
    const bool took = info.st_blocks != 0 || segment.pieces() != 1;
    ::_exit(error.find("ulimit -v") != std::string::npos && !took ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(ShmArena, ThreadsGetDifferentPieces) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200; ++round) {
        const auto offset = take(static_cast<std::size_t>(round % 3 + 1) * kPage);
        auto* word = reinterpret_cast<int*>(segment_.data() + offset);
        *word = i * 1000 + round;
        std::this_thread::yield();
        EXPECT_EQ(*word, i * 1000 + round);
        arena_.give_back(offset);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace lockstep::shm
