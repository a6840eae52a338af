#include "lockstep/parallel/join/join.h"

#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep::parallel {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::ThrowsMessage;

TEST(Join, CountsRanksWithInputs) {
  run_ranks(3, [](Group& world) {
    for (const bool initial : {true, false}) {
      Join join(world, at::kCPU, {.divide_by_initial_world_size = initial});
      if (world.rank() == 2) {
        EXPECT_EQ(join.shadow_forward(), 2);
      } else {
        join.begin_forward();
        EXPECT_EQ(join.divisor(), initial ? 3 : 2);
      }
      EXPECT_EQ(join.shadow_forward(), 0);
    }
  });
}

TEST(Join, AgreesOnARankAndOnWhatIsSynchronized) {
  run_ranks(3, [](Group& world) {
    Join join(world, at::kCPU, {});
    EXPECT_EQ(join.common_rank(world.rank() < 2), 1);
    for (const bool synchronized : {true, false}) {
      if (world.rank() < 2) {
        join.tell_synchronized(synchronized && world.rank() == 1);
      } else {
        EXPECT_EQ(join.others_synchronize(), synchronized);
      }
    }
    world.barrier();
  });
}

// A rank with inputs goes on while the others are still elsewhere.
TEST(Join, TellsWithoutWaiting) {
  run_ranks(2, [](Group& world) {
    Join join(world, at::kCPU, {});
    if (world.rank() == 0) {
      join.tell_synchronized(true);
      world.store()->set("told", "yes");
    } else {
      world.store()->wait({"told"});
      EXPECT_TRUE(join.others_synchronize());
    }
    world.barrier();
  });
}

TEST(Join, ThrowsOnAllRanksIfOneHasNoInputsAndThatIsAnError) {
  run_ranks(3, [](Group& world) {
    Join join(world, at::kCPU, {.throw_on_early_termination = true});
    if (world.rank() == 1) {
      EXPECT_THAT([&] { static_cast<void>(join.shadow_forward()); },
                  ThrowsMessage<UsageError>(HasSubstr("rank 1 has no more inputs, and 2 of 3")));
    } else {
      EXPECT_THAT([&] { join.begin_forward(); },
                  ThrowsMessage<UsageError>(HasSubstr("at least one rank has no more inputs")));
    }
  });
}

}  // namespace
}  // namespace lockstep::parallel
