#include "lockstep/parallel/buckets/sync_bucket_plan.h"

#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep::parallel {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::ThrowsMessage;

TEST(SyncBucketPlan, GivesAllRanksThePlanOfRank0) {
  run_ranks(2, [](Group& world) {
    const std::vector<Bucket> first{
        {.parameters = {3, 1}}, {.parameters = {0}}, {.parameters = {2}}};
    const std::vector<Bucket> other{{.parameters = {0, 1, 2, 3}}};
    EXPECT_EQ(sync_bucket_plan(world, world.rank() == 0 ? first : other, at::kCPU), first);
    EXPECT_EQ(sync_bucket_plan(world, world.rank() == 0 ? other : first, at::kCPU), other);
  });
}

TEST(SyncBucketPlan, RejectsWhatIsNoPlan) {
  run_ranks(2, [](Group& world) {
    for (const auto& [parameters, sizes] :
         std::vector<std::pair<std::vector<int>, std::vector<int>>>{
             {{0, 1, 99}, {}},        // More buckets than parameters.
             {{0, 0, 1}, {2}},        // One twice.
             {{0, 7, 1}, {2}},        // One that is not there.
             {{0, 1, 1}, {1}},        // One left out.
             {{0, 1, 1}, {5}},        // A bucket that is too large.
             {{0, 1, 2}, {2, 0}}}) {  // An empty bucket.
      if (world.rank() == 0) {
        world.broadcast(at::tensor(parameters, at::kInt)).wait();
        if (!sizes.empty()) {
          world.broadcast(at::tensor(sizes, at::kInt)).wait();
        }
      } else {
        EXPECT_THAT([&] { sync_bucket_plan(world, {{.parameters = {0, 1}}}, at::kCPU); },
                    ThrowsMessage<PeerError>(HasSubstr("rank 1 of 2: rank 0's plan")));
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::parallel
