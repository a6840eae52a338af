#include "lockstep/launch/protocol/rank_plan.h"

#include <gmock/gmock.h>

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

JobPlan uneven_plan() {
  JobPlan plan;
  plan.run_id = "job";
  plan.nodes = {{"a", 2, "trainer"}, {"b", 3, "reader"}, {"c", 1, "trainer"}};
  plan.master_addr = "10.0.0.1";
  plan.master_port = 4242;
  plan.attempt = 1;
  plan.max_restarts = 3;
  return plan;
}

TEST(RankPlan, RanksCountUpThroughTheNodes) {
  EXPECT_EQ(world_size(uneven_plan()), 6);
  EXPECT_EQ(first_rank(uneven_plan(), 0), 0);
  EXPECT_EQ(first_rank(uneven_plan(), 1), 2);
  EXPECT_EQ(first_rank(uneven_plan(), 2), 5);
}

TEST(RankPlan, WorkerVariablesAreTorchruns) {
  const auto variables = worker_environment(uneven_plan(), 1, 2);
  EXPECT_THAT(
      variables,
      ElementsAre(Pair("GROUP_RANK", "1"), Pair("GROUP_WORLD_SIZE", "3"), Pair("LOCAL_RANK", "2"),
                  Pair("LOCAL_WORLD_SIZE", "3"), Pair("MASTER_ADDR", "10.0.0.1"),
                  Pair("MASTER_PORT", "4242"), Pair("RANK", "4"), Pair("ROLE_NAME", "reader"),
                  Pair("ROLE_RANK", "2"), Pair("ROLE_WORLD_SIZE", "3"),
                  Pair("TORCHELASTIC_MAX_RESTARTS", "3"), Pair("TORCHELASTIC_RESTART_COUNT", "1"),
                  Pair("TORCHELASTIC_RUN_ID", "job"), Pair("TORCHELASTIC_USE_AGENT_STORE", "True"),
                  Pair("WORLD_SIZE", "6")));
}

TEST(RankPlan, RolesSpanNodes) {
  const auto variables = worker_environment(uneven_plan(), 2, 0);
  EXPECT_EQ(variables.at("ROLE_RANK"), "2");
  EXPECT_EQ(variables.at("ROLE_WORLD_SIZE"), "3");
}

TEST(DefaultEnvironment, SharesTheCoresOut) {
  EXPECT_EQ(default_environment({}, 8, 3).at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(default_environment({}, 2, 3).at("OMP_NUM_THREADS"), "1");
}

TEST(DefaultEnvironment, LeavesTheUsersValuesAlone) {
  const Environment users({{"OMP_NUM_THREADS", "5"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"}});
  EXPECT_THAT(default_environment(users, 8, 2), IsEmpty());
}

}  // namespace
}  // namespace lockstep::launch
