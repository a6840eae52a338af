#include "lockstep/data/samplers/global_batch.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(BatchSizePerRank, DividesByRanksAndAccumulation) {
  EXPECT_EQ(batch_size_per_rank({.size = 256}), 256);
  EXPECT_EQ(batch_size_per_rank({.size = 256, .world_size = 4, .accumulation = 2}), 32);
}

TEST(BatchSizePerRank, NamesTheNearestThatFits) {
  const auto nearest = [](std::int64_t size, const std::string& fits) {
    EXPECT_THAT(
        [=] { batch_size_per_rank({.size = size, .world_size = 3, .accumulation = 2}); },
        ThrowsMessage<UsageError>(HasSubstr("multiple of 6; the nearest that fits is " + fits)));
  };
  nearest(256, "258");
  nearest(253, "252");
  nearest(255, "252");
  nearest(1, "6");  // Not 0.
}

TEST(BatchSizePerRank, NumbersThatMakeNoSenseAreNamed) {
  EXPECT_THAT([] { batch_size_per_rank({.size = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("0 samples on 1 ranks")));
  EXPECT_THAT([] { batch_size_per_rank({.size = 8, .world_size = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("8 samples on 0 ranks")));
  EXPECT_THAT([] { batch_size_per_rank({.size = 8, .accumulation = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("with 0 accumulation steps")));
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_THAT([=] { batch_size_per_rank({.size = huge, .world_size = huge, .accumulation = 8}); },
              ThrowsMessage<UsageError>(HasSubstr("less than 2^31")));
  EXPECT_THAT([=] { batch_size_per_rank({.size = huge, .world_size = 8, .accumulation = huge}); },
              ThrowsMessage<UsageError>(HasSubstr("less than 2^31")));
}

}  // namespace
}  // namespace lockstep::data
