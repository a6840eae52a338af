// What a forked child can do with what it inherits of a group: nothing to its parent.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "lockstep/shm/collectives/mailbox.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using testing::FolderBoard;
using testing::on_processes;
using testing::soon;

constexpr Fold kSumInFork{.reduction = {DType::kInt32, ReduceOp::kSum}};
constexpr std::size_t kCount = std::size_t{2} << 20;  // More than the first piece has.

int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

std::int32_t* ints_of(const std::shared_ptr<std::byte>& memory) {
  return reinterpret_cast<std::int32_t*>(memory.get());
}

TEST(ShmForkedChild, WritesIntoATensorOfTheArenaWithoutChangingTheParents) {
  on_processes(2, [](Team& team) {
    const auto small = allocate(team.memory(), team.rank(), 4096);
    const auto large = allocate(team.memory(), team.rank(), kCount * 4);
    std::fill_n(ints_of(small), 1024, 3);
    std::fill_n(ints_of(large), kCount, team.rank() + 1);
    const pid_t child = ::fork();
    if (child == 0) {
      const bool seen = ints_of(small)[1023] == 3 && ints_of(large)[kCount - 1] == team.rank() + 1;
      std::fill_n(ints_of(small), 1024, 77);
      std::fill_n(ints_of(large), kCount, 77);
      const bool wrote = ints_of(small)[1023] == 77 && ints_of(large)[kCount - 1] == 77;
      ::_exit(seen && wrote ? 0 : 1);
    }
    EXPECT_EQ(status_of(child), 0);
    EXPECT_EQ(std::count(ints_of(small), ints_of(small) + 1024, 3), 1024);
    all_reduce(team, {large.get(), kCount}, kSumInFork, soon());
    EXPECT_EQ(std::count(ints_of(large), ints_of(large) + kCount, 3),
              static_cast<std::ptrdiff_t>(kCount));
  });
}

// Also while its parent's collectives write: docs/internals/shm.md says what it sees.
TEST(ShmForkedChild, WritesWhileTheParentWorksWithTheSameTensor) {
  on_processes(2, [](Team& team) {
    const auto memory = allocate(team.memory(), team.rank(), kCount * 4);
    std::fill_n(ints_of(memory), kCount, 1);
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0; i < 20; ++i) {
        std::fill_n(ints_of(memory), kCount, 77);
      }
      ::_exit(0);
    }
    for (int i = 1; i <= 10; ++i) {
      all_reduce(team, {memory.get(), kCount}, kSumInFork, soon());
      ASSERT_EQ(std::count(ints_of(memory), ints_of(memory) + kCount, 1 << i),
                static_cast<std::ptrdiff_t>(kCount));
    }
    EXPECT_EQ(status_of(child), 0);
  });
}

TEST(ShmForkedChild, FreesItsTensorsAndTheGroupAndExitsAsUsual) {
  FolderBoard board;
  on_processes(2, [&](Team& team) {
    auto own = Team::join(team.rank(), 2, board, soon());
    auto mailbox = std::make_unique<Mailbox>(*own);
    auto memory = allocate(own->memory(), own->rank(), kCount * 4);
    std::fill_n(ints_of(memory), kCount, 1);
    all_reduce(*own, {memory.get(), kCount}, kSumInFork, soon());  // Maps the peer's.
    const pid_t child = ::fork();
    if (child == 0) {
      memory.reset();
      mailbox.reset();
      own.reset();
      std::exit(0);
    }
    EXPECT_EQ(status_of(child), 0);
    all_reduce(*own, {memory.get(), kCount}, kSumInFork, soon());
    EXPECT_EQ(ints_of(memory)[kCount - 1], 4);
  });
}

// Neither through what it has of the group itself, with all of its checks out of the way.
TEST(ShmForkedChild, CannotWriteIntoAnyRanksControlBlock) {
  on_processes(2, [](Team& team) {
    barrier(team, soon());
    const pid_t child = ::fork();
    if (child == 0) {
      for (int rank = 0; rank < 2; ++rank) {
        std::memset(static_cast<void*>(&team.memory()->control(rank)), 0xff, sizeof(Control));
        std::memset(team.memory()->staging(rank, 0), 0xff, team.memory()->layout().staging_bytes);
      }
      ::_exit(0);
    }
    EXPECT_EQ(status_of(child), 0);
    barrier(team, soon());
    EXPECT_EQ(team.memory()->control(0).magic, kMagic);
    EXPECT_EQ(team.memory()->control(1).magic, kMagic);
  });
}

TEST(ShmForkedChild, FormsAGroupOfItsOwn) {
  FolderBoard board;
  on_processes(2, [&](Team& team) {
    const auto memory = allocate(team.memory(), team.rank(), kCount * 4);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto own = Team::join(team.rank(), 2, board, soon());
      const auto block = allocate(own->memory(), own->rank(), kCount * 4);
      std::fill_n(ints_of(block), kCount, 2);
      all_reduce(*own, {block.get(), kCount}, kSumInFork, soon());
      ::_exit(ints_of(block)[kCount - 1] == 4 ? 0 : 1);
    }
    EXPECT_EQ(status_of(child), 0);
    barrier(team, soon());
  });
}

}  // namespace
}  // namespace lockstep::shm
