#include "lockstep/comm/gpu_choice.h"

#include <gmock/gmock.h>

namespace lockstep::comm {
namespace {

using ::testing::ElementsAre;
using Ranks = std::vector<std::optional<SeenGpus>>;

TEST(GpuChoice, RanksThatSeeAllGpusHaveOneEachUntilThereIsNoneLeft) {
  const SeenGpus both{"here", {"0000:01:00.0", "0000:02:00.0"}};
  EXPECT_EQ(rank_with_same_gpu({both}), std::nullopt);
  EXPECT_EQ(rank_with_same_gpu({both, both}), std::nullopt);
  EXPECT_EQ(rank_with_same_gpu({both, both, both}), 0);
  EXPECT_EQ(rank_with_same_gpu({both, both, both, both}), 1);
}

// srun --gpus-per-task=1: each rank's only GPU is cuda:0.
TEST(GpuChoice, RanksThatSeeOnlyTheirOwnHaveOneEach) {
  const SeenGpus first{"here", {"0000:01:00.0"}};
  const SeenGpus second{"here", {"0000:02:00.0"}};
  EXPECT_EQ(rank_with_same_gpu({first, second}), std::nullopt);
  EXPECT_EQ(rank_with_same_gpu({first, second, second}), 1);
}

// srun --gpus-per-task=2 with four ranks.
TEST(GpuChoice, ARankThatSeesSeveralOfItsOwnTakesOneOfThem) {
  const SeenGpus first{"here", {"0000:01:00.0", "0000:02:00.0"}};
  const SeenGpus second{"here", {"0000:03:00.0", "0000:04:00.0"}};
  EXPECT_EQ(rank_with_same_gpu({first, second, second}), std::nullopt);
}

TEST(GpuChoice, TheSameBusIdOnAnotherHostIsAnotherGpu) {
  const SeenGpus here{"here", {"0000:01:00.0"}};
  const SeenGpus there{"there", {"0000:01:00.0"}};
  EXPECT_EQ(rank_with_same_gpu({here, there}), std::nullopt);
  EXPECT_EQ(rank_with_same_gpu({here, there, there}), 1);
}

TEST(GpuChoice, RanksOfWhichNothingIsKnownTakeNone) {
  const SeenGpus one{"here", {"0000:01:00.0"}};
  EXPECT_EQ(rank_with_same_gpu({std::nullopt, one}), std::nullopt);
  EXPECT_EQ(rank_with_same_gpu({one, std::nullopt}), std::nullopt);
  EXPECT_EQ(rank_with_same_gpu(Ranks{SeenGpus{"here", {}}, one}), std::nullopt);
}

TEST(GpuChoice, NcclSharesGpusIfToldSo) {
  EXPECT_FALSE(nccl_shares_gpus({}));
  EXPECT_FALSE(nccl_shares_gpus(Environment({{"NCCL_MULTI_RANK_GPU_ENABLE", "0"}})));
  EXPECT_TRUE(nccl_shares_gpus(Environment({{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}})));
}

TEST(GpuChoice, IsTheSameAfterATripThroughTheStore) {
  const auto found = seen_gpus_from(text_of({"host 1", {"0000:01:00.0", ""}}));
  EXPECT_EQ(found.host, "host 1");
  EXPECT_THAT(found.bus_ids, ElementsAre("0000:01:00.0", ""));
  EXPECT_TRUE(seen_gpus_from(text_of({"host", {}})).bus_ids.empty());
}

}  // namespace
}  // namespace lockstep::comm
