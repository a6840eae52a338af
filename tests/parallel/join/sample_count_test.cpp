#include "lockstep/parallel/join/sample_count.h"

#include <gmock/gmock.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep::parallel {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::ThrowsMessage;

TEST(SampleCount, DividesByTheShareOfARank) {
  run_ranks(3, [](Group& world) {
    SampleCount count(world, at::kCPU);
    count.begin(world.rank() * 2);
    const double divisor = count.divisor();
    if (world.rank() == 0) {
      EXPECT_TRUE(std::isinf(divisor));
    } else {
      EXPECT_EQ(divisor, world.rank() == 1 ? 3 : 1.5);
    }
    count.begin(5);
    EXPECT_EQ(count.divisor(), 3);
  });
}

TEST(SampleCount, RefusesLessThanNoSamples) {
  SampleCount count(init_process_group(), at::kCPU);
  EXPECT_THAT([&] { count.begin(-1); }, ThrowsMessage<UsageError>(HasSubstr("has -1")));
  EXPECT_THAT([&] { count.begin(std::nan("")); }, ThrowsMessage<UsageError>(HasSubstr("has nan")));
}

}  // namespace
}  // namespace lockstep::parallel
