#include "lockstep/comm/backends/support/monitored_barrier.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::run_on_hosts;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(MonitoredBarrier, OfSeveralHostsLetsAllPass) {
  run_on_hosts({1, 2, 1}, [](Group& world) {
    for (int i = 0; i < 5; ++i) {
      world.backend()->monitoredBarrier({}, /*waitAllRanks=*/i % 2 == 0);
    }
    world.barrier();
  });
}

// Rank 1 does not come, ranks 2 and 3 do.
TEST(MonitoredBarrier, OfSeveralHostsNamesOnRank0WhoDidNotCome) {
  run_on_hosts({1, 2, 1}, [](Group& world) {
    c10d::BarrierOptions options;
    options.timeout = std::chrono::milliseconds(500);
    const auto call = [&] { world.backend()->monitoredBarrier(options, /*waitAllRanks=*/true); };
    if (world.rank() == 0) {
      EXPECT_THAT(call, ThrowsMessage<PeerError>(
                            AllOf(HasSubstr("monitored_barrier #1 on rank 0"),
                                  HasSubstr("Rank 1 failed to pass monitoredBarrier in 500 ms"),
                                  HasSubstr("came: 2, 3"))));
      EXPECT_EQ(world.backend()->getError(), c10d::ErrorType::COMM_ERROR);
    } else if (world.rank() > 1) {
      EXPECT_THAT(
          call, ThrowsMessage<PeerError>(AllOf(HasSubstr("Rank " + std::to_string(world.rank()) +
                                                         " successfully reached monitoredBarrier"),
                                               HasSubstr("Rank 1 failed to pass"))));
    }
    ::usleep(1500000);
  });
}

}  // namespace
}  // namespace lockstep::comm
