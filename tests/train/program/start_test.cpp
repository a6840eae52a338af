#include "lockstep/train/program/start.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(LaunchArguments, OneRankNeedsNoLauncher) {
  EXPECT_FALSE(launch_arguments({}, false, 0, 0));
  EXPECT_FALSE(launch_arguments({.nproc = 1}, false, 0, 4));
}

TEST(LaunchArguments, GpusAreRanks) {
  EXPECT_THAT(*launch_arguments({}, false, 0, 2),
              ElementsAre("--nproc-per-node", "2", "--no-python"));
  EXPECT_THAT([] { launch_arguments({.nproc = 4}, false, 0, 2); },
              ThrowsMessage<UsageError>(HasSubstr("HINT: --gpus 2")));
}

TEST(LaunchArguments, NodesAndRestartsAreTheLaunchers) {
  EXPECT_THAT(*launch_arguments(
                  {.nproc = 1, .nodes = 2, .node_rank = 1, .master_addr = "a", .max_restarts = 3},
                  false, 0, 0),
              ElementsAre("--nproc-per-node", "1", "--nnodes", "2", "--node-rank", "1",
                          "--master-addr", "a", "--max-restarts", "3", "--no-python"));
  EXPECT_THROW(launch_arguments({.nodes = 2, .node_rank = 2}, false, 0, 0), UsageError);
}

TEST(LaunchArguments, ARankStartsNoOthers) {
  EXPECT_FALSE(launch_arguments({.nproc = 2}, true, 2, 0));
  EXPECT_THAT([] { launch_arguments({.nproc = 2}, true, 3, 0); },
              ThrowsMessage<UsageError>(HasSubstr("one of 3 already")));
}

TEST(LaunchArguments, DistUrlNeedsRankAndWorldSize) {
  const JobConfig job{.dist_url = "tcp://a:1", .rank = 1, .world_size = 2};
  EXPECT_FALSE(launch_arguments(job, false, 0, 0));
  EXPECT_EQ(init_options(job).init_method, "tcp://a:1");
  EXPECT_EQ(init_options(job).rank, 1);
  EXPECT_THROW(launch_arguments({.dist_url = "tcp://a:1"}, false, 0, 0), UsageError);
}

}  // namespace
}  // namespace lockstep::train
