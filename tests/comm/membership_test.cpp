#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/socket.h"
#include "tests/comm/ranks.h"
#include "tests/comm/stopped_host.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Membership, LocalRanksFollowFromWhoSharesAHost) {
  EXPECT_NO_THROW(spawn(4, [](int rank) {
    ::unsetenv("LOCAL_RANK");
    ::unsetenv("LOCAL_WORLD_SIZE");
    ::unsetenv("GROUP_RANK");
    ::setenv("LOCKSTEP_HOST_ID", rank == 1 ? "other" : "one", 1);
    auto world = init_process_group();
    EXPECT_EQ(world.local_rank(), rank == 1 ? 0 : rank == 0 ? 0 : rank - 1);
    EXPECT_EQ(world.local_size(), rank == 1 ? 1 : 3);
    EXPECT_EQ(world.node_rank(), rank == 1 ? 1 : 0);
    world.barrier();
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed");
    }
  }));
}

TEST(Membership, ARankThatNeverJoinsIsNamedByTheOthers) {
  const auto port = std::to_string(listen_on({"127.0.0.1", 0}).port);
  EXPECT_NO_THROW(spawn(3, [&](int rank) {
    testing::meet_at(port);
    if (rank == 2) {
      return;
    }
    EXPECT_THAT(
        [] { init_process_group({.timeout = std::chrono::seconds(2)}); },
        ThrowsMessage<PeerError>(AllOf(HasSubstr("rank 2 did not join within 2 s"),
                                       HasSubstr("on rank " + std::to_string(rank) + " of 3"))));
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed");
    }
  }));
}

TEST(Membership, ARankLeavesAStoreThatDoesNotAnswer) {
  EXPECT_NO_THROW(testing::with_host([](Group world) {
    const testing::StoppedHost host(world);
    if (world.rank() == 0) {
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    world.destroy();
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(15)) {
      throw std::runtime_error("leaving took too long");
    }
  }));
}

}  // namespace
}  // namespace lockstep
