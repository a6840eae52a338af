#include "lockstep/train/optim/parameter_shards.h"

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>

namespace lockstep::optim {
namespace {

using ::testing::ElementsAre;

// That it is Python's is seen in zero_redundancy_optimizer_test.
TEST(PartitionParameters, GivesTheLargestToWhoHasLeast) {
  const auto of = [](std::int64_t size) { return at::empty({size}); };
  EXPECT_THAT(partition_parameters({{of(1), of(9), of(4), of(4)}}, 2), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(partition_parameters({{of(5)}, {of(2), of(2)}}, 2), ElementsAre(0, 1, 1));
  EXPECT_THAT(partition_parameters({{of(5), of(5)}}, 3), ElementsAre(0, 1));
}

}  // namespace
}  // namespace lockstep::optim
