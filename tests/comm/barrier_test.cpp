#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <thread>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(Barrier, HoldsEveryRankUntilTheLastCame) {
  testing::run_ranks(3, [](Group& world) {
    const auto start = std::chrono::steady_clock::now();
    if (world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    world.barrier();
    world.barrier();
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(290));
  });
}

TEST(Barrier, NamesOnEveryRankExactlyTheRanksThatDidNotArrive) {
  testing::run_ranks(4, [](Group& world) {
    world.barrier();
    if (world.rank() == 1 || world.rank() == 3) {
      std::this_thread::sleep_for(std::chrono::seconds(3));  // Alive, but late.
    }
    EXPECT_THAT([&] { world.barrier({.timeout = std::chrono::milliseconds(700)}); },
                ThrowsMessage<PeerError>(
                    AllOf(HasSubstr("barrier #2 on rank " + std::to_string(world.rank()) + " of 4"),
                          HasSubstr("ranks 1, 3 did not arrive within 700 ms"))));
  });
}

TEST(Barrier, SaysSoOnARankThatCameTooLate) {
  testing::run_ranks(2, [](Group& world) {
    if (world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    EXPECT_THAT([&] { world.barrier({.timeout = std::chrono::milliseconds(300)}); },
                ThrowsMessage<PeerError>(world.rank() == 1
                                             ? HasSubstr("(this rank came too late)")
                                             : HasSubstr("rank 1 did not arrive within 300 ms")));
  });
}

TEST(Barrier, SaysWhichRankCalledAnotherCollective) {
  testing::run_ranks(
      2,
      [](Group& world) {
        if (world.rank() == 1) {
          EXPECT_THROW(world.all_reduce(at::ones({3})).wait(), PeerError);
          return;
        }
        EXPECT_THAT(
            [&] { world.barrier(); },
            ThrowsMessage<PeerError>(AllOf(
                StartsWith("barrier #1 on rank 0 of 2"), HasSubstr(" calls barrier, rank 1"),
                HasSubstr(" calls all_reduce(sum, float32, 3 elements: 12 bytes)"),
                HasSubstr("; rank 1 had not come to this barrier"), Not(HasSubstr("connection")))));
      },
      "shm");
}

}  // namespace
}  // namespace lockstep
