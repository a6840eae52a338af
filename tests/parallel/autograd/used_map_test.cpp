#include "lockstep/parallel/autograd/used_map.h"

#include <gmock/gmock.h>

#include "tests/comm/ranks.h"

namespace lockstep::parallel {
namespace {

using testing::run_ranks;

TEST(UsedMap, KnowsWhatIsUsedOnAnyRank) {
  run_ranks(2, [](Group& world) {
    UsedMap map(world, 3, at::kCPU);
    for (int step = 0; step < 2; ++step) {
      map.mark(world.rank() == 0 ? 0 : 1);
      map.start_sum();
      EXPECT_TRUE(map.anywhere(0));
      EXPECT_TRUE(map.anywhere(1));
      EXPECT_FALSE(map.anywhere(2));
      map.finish_sum();
      map.clear();
    }
  });
}

TEST(UsedMap, SaysAgainWhatTheLastSumSaid) {
  run_ranks(2, [](Group& world) {
    UsedMap map(world, 3, at::kCPU);
    map.mark(static_cast<std::size_t>(world.rank()));
    map.start_sum();
    map.finish_sum();
    map.clear();
    if (world.rank() == 0) {
      map.start_sum();
    } else {
      map.start_sum_again();
    }
    EXPECT_TRUE(map.anywhere(0));
    EXPECT_TRUE(map.anywhere(1));
    EXPECT_FALSE(map.anywhere(2));
  });
}

TEST(UsedMap, NeedsNoSumWhereAllIsUsedHere) {
  run_ranks(2, [](Group& world) {
    UsedMap map(world, 2, at::kCPU);
    map.mark(0);
    map.mark(1);
    EXPECT_TRUE(map.anywhere(0));  // No sum was started: waiting for one would crash.
    EXPECT_TRUE(map.anywhere(1));
  });
}

}  // namespace
}  // namespace lockstep::parallel
