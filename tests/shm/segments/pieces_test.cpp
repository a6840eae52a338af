// Arenas that grow by further pieces while the group works.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/process/state.h"
#include "lockstep/shm/collectives/mailbox.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::on_processes;
using testing::on_threads;
using testing::soon;
using ::testing::ThrowsMessage;

constexpr std::size_t kMiOfPiece = std::size_t{1} << 20;
constexpr Fold kPieceSum{.reduction = {DType::kInt32, ReduceOp::kSum}};

TeamOptions with_a_small_arena() {
  return {.staging_bytes = 4096, .arena_bytes = 64 * 1024, .notice = nullptr};
}

// What each rank gives, by rank.
std::vector<std::uint64_t> from_all(Team& team, std::uint64_t mine) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(team.size()));
  std::vector<Output> outputs;
  for (auto& one : all) {
    outputs.push_back({reinterpret_cast<std::byte*>(&one), sizeof one});
  }
  all_gather(team, outputs, {reinterpret_cast<const std::byte*>(&mine), sizeof mine},
             DType::kUInt64, soon());
  return all;
}

// Sums a tensor of the arena; the result must then lie in the memory of every rank.
void sum_in_place(Team& team, const std::shared_ptr<std::byte>& memory, std::size_t count) {
  auto* values = reinterpret_cast<std::int32_t*>(memory.get());
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::int32_t>(i % 1000) * (team.rank() + 1);
  }
  all_reduce(team, {memory.get(), count}, kPieceSum, soon());
  const auto expected = [&](std::size_t i) {
    return static_cast<std::int32_t>(i % 1000) * team.size() * (team.size() + 1) / 2;
  };
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(values[i], expected(i)) << i;
  }
  const auto place = team.memory()->place_of(team.rank(), memory.get(), count * 4);
  ASSERT_NE(place, 0U);
  const auto places = from_all(team, place);
  for (int rank = 0; rank < team.size(); ++rank) {
    const auto* theirs = reinterpret_cast<const std::int32_t*>(
        team.memory()->at(rank, places[static_cast<std::size_t>(rank)], count * 4, 4));
    ASSERT_NE(theirs, nullptr) << rank;
    ASSERT_EQ(theirs[count - 1], expected(count - 1)) << rank;
  }
  barrier(team, soon());  // Nobody writes before all have looked.
}

// Ranks grow at different times and by different amounts; tensors of one collective lie in
// different pieces; some are given back and their memory is used again.
void grow_unevenly(Team& team) {
  const auto me = static_cast<std::size_t>(team.rank());
  std::mt19937 random(7);  // The same sizes on all ranks.
  std::vector<std::shared_ptr<std::byte>> ballast;
  std::vector<std::pair<std::shared_ptr<std::byte>, std::size_t>> tensors;
  for (int round = 0; round < 40; ++round) {
    if (round % static_cast<int>(me + 2) == 0) {
      ballast.push_back(allocate(team.memory(), team.rank(), (me + 1) * 300 * 1024));
    }
    if (tensors.size() > 6) {
      const auto i = static_cast<std::ptrdiff_t>(random() % tensors.size());
      tensors.erase(tensors.begin() + i);
    }
    const std::size_t count = 2000 + random() % (round % 10 == 0 ? 1000000 : 60000);
    tensors.emplace_back(allocate(team.memory(), team.rank(), count * 4), count);
    const auto& [memory, elements] = tensors[random() % tensors.size()];
    ASSERT_NO_FATAL_FAILURE(sum_in_place(team, memory, elements));
  }
}

TEST(ShmPieces, CollectivesInPlaceOverUnevenGrowthOnThreads) {
  on_threads(3, grow_unevenly, with_a_small_arena());
}
TEST(ShmPieces, CollectivesInPlaceOverUnevenGrowthOnProcesses) {
  on_processes(3, grow_unevenly, with_a_small_arena());
}

TEST(ShmPieces, WhatWasGivenBackIsUsedAgainAndNoPieceIsAdded) {
  on_processes(
      2,
      [](Team& team) {
        std::uint64_t place = 0;
        for (int round = 0; round < 20; ++round) {
          const auto memory = allocate(team.memory(), team.rank(), 40 * kMiOfPiece);
          const auto now = team.memory()->place_of(team.rank(), memory.get(), 1);
          EXPECT_TRUE(place == 0 || place == now);
          place = now;
          if (round % 10 == 0) {
            ASSERT_NO_FATAL_FAILURE(sum_in_place(team, memory, 10 * kMiOfPiece));
          }
        }
        EXPECT_EQ(team.memory()->control(team.rank()).piece_ends[2].load(), 0U);
      },
      with_a_small_arena());
}

TEST(ShmPieces, OtherThreadsAllocateWhileCollectivesRun) {
  on_threads(
      2,
      [](Team& team) {
        std::thread other([&] {
          for (std::size_t i = 1; i < 40; ++i) {
            const auto memory = allocate(team.memory(), team.rank(), i * 100 * 1024);
            std::memset(memory.get(), 1, i * 100 * 1024);
          }
        });
        for (std::size_t i = 1; i < 20; ++i) {
          const auto memory = allocate(team.memory(), team.rank(), i * 50 * 1024);
          auto* values = reinterpret_cast<std::int32_t*>(memory.get());
          std::fill_n(values, i * 10 * 1024, 3);
          all_reduce(team, {memory.get(), i * 10 * 1024}, kPieceSum, soon());
          EXPECT_EQ(values[i * 10 * 1024 - 1], 6);
        }
        other.join();
      },
      with_a_small_arena());
}

TEST(ShmPieces, AMessageInOneArrivesAfterItsSenderHasEnded) {
  on_processes(
      2,
      [](Team& team) {
        Mailbox mailbox(team);
        const auto pids = from_all(team, static_cast<std::uint64_t>(::getpid()));
        std::vector<std::int32_t> values(2 * kMiOfPiece, 5);
        if (team.rank() == 1) {
          mailbox.send(0, 0, testing::input_of(values).data, testing::input_of(values).bytes);
          return;
        }
        const auto deadline = soon();
        while (state_of({.pid = static_cast<pid_t>(pids[1])}).life != Life::kEnded) {
          ASSERT_FALSE(deadline.passed());
          std::this_thread::yield();
        }
        std::fill(values.begin(), values.end(), 0);
        const auto receipt = mailbox.post({.source = 1,
                                           .data = testing::output_of(values).data,
                                           .bytes = testing::output_of(values).bytes});
        mailbox.wait(*receipt, soon());
        EXPECT_EQ(values.back(), 5);
      },
      with_a_small_arena());
}

TEST(ShmPieces, ARankThatCannotMapAPeersMemoryEndsTheGroupAndSaysWhy) {
  on_processes(
      2,
      [](Team& team) {
        constexpr std::size_t kCount = 16 * kMiOfPiece;
        const auto memory = allocate(team.memory(), team.rank(), kCount * 4);
        if (team.rank() == 1) {
          EXPECT_THAT([&] { all_reduce(team, {memory.get(), kCount}, kPieceSum, soon()); },
                      ThrowsMessage<PeerError>(AllOf(HasSubstr("rank 0 (pid "),
                                                     HasSubstr("aborted the group: "),
                                                     HasSubstr("memory of rank 1: "))));
          return;
        }
        std::size_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        const rlim_t limit =
            pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + 16 * kMiOfPiece;
        rlimit limits{};
        ASSERT_EQ(::getrlimit(RLIMIT_AS, &limits), 0);
        limits.rlim_cur = limit;
        ASSERT_EQ(::setrlimit(RLIMIT_AS, &limits), 0);
        EXPECT_THAT([&] { all_reduce(team, {memory.get(), kCount}, kPieceSum, soon()); },
                    ThrowsMessage<IoError>(AllOf(HasSubstr("all_reduce #1 "),
                                                 HasSubstr("on rank 0 of 2: memory of rank 1: "),
                                                 HasSubstr("64.0 MiB"), HasSubstr("ulimit -v"))));
        EXPECT_THROW(barrier(team, soon()), PeerError) << "it stays broken";
      },
      with_a_small_arena());
}

}  // namespace
}  // namespace lockstep::shm
