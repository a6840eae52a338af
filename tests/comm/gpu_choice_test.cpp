#include "lockstep/comm/gpu_choice.h"

#include <gmock/gmock.h>

namespace lockstep::comm {
namespace {

using ::testing::ElementsAre;

const std::string kA = "0000:01:00.0";
const std::string kB = "0000:02:00.0";
const std::string kC = "0000:03:00.0";
const std::string kD = "0000:04:00.0";

// The choice of each of these ranks: its number, and "-R" if rank R has that GPU.
std::vector<std::string> choices(const std::vector<SeenGpus>& ranks) {
  std::vector<std::string> all;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(rank) + 1;
    const auto choice = choose_gpu({ranks.begin(), end});
    all.push_back(std::to_string(choice.number) +
                  (choice.shared_with ? "-" + std::to_string(*choice.shared_with) : ""));
  }
  return all;
}

TEST(GpuChoice, RanksThatSeeAllGpusHaveOneEachUntilThereIsNoneLeft) {
  const SeenGpus both{"here", {kA, kB}};
  EXPECT_THAT(choices({both, both, both, both}), ElementsAre("0", "1", "0-0", "1-1"));
}

// srun --gpus-per-task=1: each rank's only GPU is cuda:0.
TEST(GpuChoice, RanksThatSeeOnlyTheirOwnHaveOneEach) {
  const SeenGpus first{"here", {kA}};
  const SeenGpus second{"here", {kB}};
  EXPECT_THAT(choices({first, second, second}), ElementsAre("0", "0", "0-1"));
}

// srun --gpus-per-task=2 with three ranks.
TEST(GpuChoice, ARankThatSeesSeveralOfItsOwnTakesOneOfThem) {
  EXPECT_THAT(choices({{"here", {kA, kB}}, {"here", {kC, kD}}, {"here", {kC, kD}}}),
              ElementsAre("0", "1", "0"));
}

// srun --gpu-bind=closest: each sees those of its socket.
TEST(GpuChoice, ARankTakesWhatOthersLeft) {
  const SeenGpus near{"here", {kA, kB}};
  const SeenGpus far{"here", {kC, kD}};
  EXPECT_THAT(choices({near, far, near, far, near}), ElementsAre("0", "1", "1", "0", "0-0"));
}

TEST(GpuChoice, TheSameBusIdOnAnotherHostIsAnotherGpu) {
  const SeenGpus here{"here", {kA}};
  const SeenGpus there{"there", {kA}};
  EXPECT_THAT(choices({here, there, there}), ElementsAre("0", "0", "0-1"));
}

TEST(GpuChoice, ARankWithoutGpusHasAPlaceAndTakesNone) {
  const SeenGpus both{"here", {kA, kB}};
  EXPECT_THAT(choices({both, {"here", {}}, both}), ElementsAre("0", "0", "1"));
}

TEST(GpuChoice, WhatTheDriverDoesNotTellIsTakenByNobody) {
  const SeenGpus unknown{"here", {""}};
  EXPECT_THAT(choices({unknown, unknown}), ElementsAre("0", "0"));
}

TEST(GpuChoice, NcclSharesGpusIfToldSo) {
  EXPECT_FALSE(nccl_shares_gpus({}));
  EXPECT_FALSE(nccl_shares_gpus(Environment({{"NCCL_MULTI_RANK_GPU_ENABLE", "0"}})));
  EXPECT_TRUE(nccl_shares_gpus(Environment({{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}})));
}

TEST(GpuChoice, IsTheSameAfterATripThroughTheStore) {
  const auto found = seen_gpus_from(text_of({"host 1", {kA, ""}}));
  EXPECT_EQ(found.host, "host 1");
  EXPECT_THAT(found.bus_ids, ElementsAre(kA, ""));
  EXPECT_TRUE(seen_gpus_from(text_of({"host", {}})).bus_ids.empty());
}

}  // namespace
}  // namespace lockstep::comm
