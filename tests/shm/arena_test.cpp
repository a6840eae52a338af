#include "lockstep/shm/arena.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <random>

#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"
#include "lockstep/shm/layout.h"

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
  Arena arena_{segment_, kBegin, segment_.bytes()};

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
    Arena arena(segment_, kBegin, kBegin + 3 * kPage);
    std::vector<std::size_t> pieces;
    for (int i = 0; i < 3; ++i) {
      pieces.push_back(arena.take(kPage, "test"));
    }
    for (const int i : order) {
      arena.give_back(pieces[static_cast<std::size_t>(i)]);
    }
    EXPECT_EQ(arena.take(3 * kPage, "test"), kBegin);
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

TEST_F(ShmArena, TooLargeForTheAddressSpaceIsAnIoErrorThatNamesBothSizes) {
  EXPECT_THAT([&] { arena_.take(257 * kMiB, "allocating on rank 1"); },
              ThrowsMessage<IoError>(AllOf(StartsWith("allocating on rank 1: "),
                                           HasSubstr("257.0 MiB"), HasSubstr("256.0 MiB"))));
}

TEST_F(ShmArena, SizesThatOverflowAreIoErrors) {
  for (const std::size_t bytes : {~std::size_t{0}, ~std::size_t{0} - kPage, std::size_t{1} << 63}) {
    EXPECT_THROW(take(bytes), IoError) << bytes;
  }
}

TEST_F(ShmArena, MoreThanTheMachineHasIsAnIoErrorAndTakesNothing) {
  const std::size_t absurd = 2 * free_memory().bytes;
  const Segment large = Segment::create(absurd + 2 * kBegin);
  Arena arena(large, kBegin, large.bytes());
  EXPECT_THAT([&] { arena.take(absurd, "test"); },
              ThrowsMessage<IoError>(HasSubstr(" of shared memory are needed, ")));
  EXPECT_EQ(arena.take(1, "test"), kBegin);
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
