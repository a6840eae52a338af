#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/socket.h"
#include "tests/comm/ranks.h"

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

// The store is in the process of rank 0.
void meet_at(const std::string& port) {
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", port.c_str(), 1);
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
}

TEST(Membership, ARankThatNeverJoinsIsNamedByTheOthers) {
  const auto port = std::to_string(listen_on({"127.0.0.1", 0}).port);
  EXPECT_NO_THROW(spawn(3, [&](int rank) {
    meet_at(port);
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
  const auto port = std::to_string(listen_on({"127.0.0.1", 0}).port);
  EXPECT_NO_THROW(spawn(2, [&](int rank) {
    meet_at(port);
    std::optional<Group> world = init_process_group();
    auto first = at::full({1}, static_cast<std::int64_t>(rank == 0 ? ::getpid() : 0), at::kLong);
    world->all_reduce(first).wait();
    if (rank == 0) {
      return;  // Waits some seconds for the other to leave.
    }
    const auto host = static_cast<pid_t>(first.item<std::int64_t>());
    ::kill(host, SIGSTOP);
    const auto begin = std::chrono::steady_clock::now();
    world.reset();
    const auto took = std::chrono::steady_clock::now() - begin;
    ::kill(host, SIGCONT);
    if (took > std::chrono::seconds(15)) {
      throw std::runtime_error("leaving took too long");
    }
  }));
}

}  // namespace
}  // namespace lockstep
