#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::on_ranks;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void monitored_barrier(Group& world, milliseconds timeout, bool wait_all_ranks) {
  c10d::BarrierOptions options;
  options.timeout = timeout;
  world.backend()->monitoredBarrier(options, wait_all_ranks);
}

TEST(ShmMonitoredBarrier, LetsAllPassAgainAndAgain) {
  on_ranks(3, [](Group& world) {
    for (int i = 0; i < 20; ++i) {
      monitored_barrier(world, c10d::kUnsetTimeout, i % 2 == 0);
    }
  });
}

TEST(ShmMonitoredBarrier, OneThatTimedOutLeavesNothingToTheNext) {
  on_ranks(2, [](Group& world) {
    if (world.rank() == 1) {
      world.backend()->setTimeout(milliseconds(1));
      EXPECT_THROW(monitored_barrier(world, c10d::kUnsetTimeout, false), PeerError);
      world.backend()->setTimeout(std::chrono::minutes(1));
      world.store()->set("gave up", "1");
      monitored_barrier(world, c10d::kUnsetTimeout, false);
      world.store()->set("passed", "1");
    } else {
      world.store()->wait({"gave up"});
      monitored_barrier(world, c10d::kUnsetTimeout, false);
      EXPECT_ANY_THROW(world.store()->wait({"passed"}, milliseconds(300)));
      monitored_barrier(world, c10d::kUnsetTimeout, false);
    }
    world.barrier();
  });
}

TEST(ShmMonitoredBarrier, NamesTheFirstRankThatIsMissing) {
  on_ranks(4, [](Group& world) {
    if (world.rank() == 0) {
      EXPECT_THAT([&] { monitored_barrier(world, milliseconds(100), false); },
                  ThrowsMessage<PeerError>(
                      AllOf(HasSubstr("Rank 1 failed to pass monitoredBarrier in 100 ms"),
                            HasSubstr("came: none"))));
    } else if (world.rank() == 3) {
      EXPECT_THAT([&] { monitored_barrier(world, milliseconds(100), false); },
                  ThrowsMessage<PeerError>(
                      HasSubstr("Rank 3 successfully reached monitoredBarrier, but received errors "
                                "while waiting for send/recv from rank 0")));
    }
    world.store()->add("done", 1);
    while (world.store()->add("done", 0) < 4) {  // Who has left is missing for another reason.
      std::this_thread::yield();
    }
  });
}

TEST(ShmMonitoredBarrier, NamesAllThatAreMissingWhenAsked) {
  on_ranks(4, [](Group& world) {
    if (world.rank() == 0) {
      EXPECT_THAT(
          [&] { monitored_barrier(world, milliseconds(500), true); },
          ThrowsMessage<PeerError>(AllOf(HasSubstr("Ranks 1, 3 failed to pass monitoredBarrier"),
                                         HasSubstr("came: 2"))));
    } else if (world.rank() == 2) {
      EXPECT_THROW(monitored_barrier(world, milliseconds(500), true), PeerError);
    }
    world.store()->add("done", 1);
    while (world.store()->add("done", 0) < 4) {
      std::this_thread::yield();
    }
  });
}

TEST(ShmMonitoredBarrier, NoTimeAtAllIsAnErrorOfRank0) {
  on_ranks(2, [](Group& world) {
    if (world.rank() == 0) {
      EXPECT_THAT([&] { monitored_barrier(world, milliseconds(0), false); },
                  ThrowsMessage<PeerError>(HasSubstr("Rank 0 timed out in monitoredBarrier")));
    }
  });
}

}  // namespace
}  // namespace lockstep::comm
