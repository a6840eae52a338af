// Kills and resumes jobs in the middle of epochs and looks at the order of all samples.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/data/samplers/distributed_sampler.h"
#include "lockstep/data/samplers/global_batch.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

using Order = std::vector<std::int64_t>;

struct Job {
  std::int64_t dataset_size = 0;
  std::int64_t global_batch = 0;
  DistributedSamplerOptions options;
};

// Runs `steps` steps on `world_size` ranks, less if the epoch ends before, from `position`, which
// moves on. Appends to `order` what the ranks use, as all of them together see it.
void run(const Job& job, std::int64_t world_size, std::int64_t steps, SamplerPosition& position,
         Order& order) {
  std::vector<DistributedSampler> ranks;
  std::vector<Order> indices;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back(job.dataset_size, world_size, rank, job.options);
    ranks.back().resume(position);
    ranks.back().set_epoch(position.epoch);  // As the loop of a training program does.
    indices.push_back(ranks.back().indices());
  }
  const std::int64_t batch =
      batch_size_per_rank({.size = job.global_batch, .world_size = world_size});
  const std::int64_t taken = std::min(ranks[0].size(), steps * batch);
  for (std::int64_t i = 0; i < taken; ++i) {
    for (const Order& of_rank : indices) {
      order.push_back(of_rank.at(static_cast<std::size_t>(i)));
    }
  }
  position = ranks[0].position_after(taken);
  for (const auto& rank : ranks) {
    ASSERT_EQ(rank.position_after(taken), position);
  }
}

Order undisturbed(const Job& job, std::int64_t world_size, std::int64_t epoch) {
  Order order;
  SamplerPosition position{.seed = job.options.seed, .epoch = epoch};
  run(job, world_size, job.dataset_size, position, order);
  return order;
}

// Each part: so many ranks, killed after some of the steps that are left and have a full batch.
Order disturbed(const Job& job, const std::vector<std::int64_t>& world_sizes, std::int64_t epoch,
                std::mt19937& random) {
  Order order;
  SamplerPosition position{.seed = job.options.seed, .epoch = epoch};
  std::int64_t full_steps = job.dataset_size / job.global_batch;
  for (std::size_t part = 0; part < world_sizes.size(); ++part) {
    const bool last = part + 1 == world_sizes.size();
    const std::int64_t steps =
        last ? job.dataset_size : static_cast<std::int64_t>(random()) % (full_steps + 1);
    full_steps -= last ? 0 : steps;
    run(job, world_sizes[part], steps, position, order);
  }
  return order;
}

TEST(ResumedSampler, ContinuesTheOrderAtTheSameWorldSize) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const Job job{.dataset_size = 50 + static_cast<std::int64_t>(random() % 300),
                  .global_batch = 6 * (1 + static_cast<std::int64_t>(random() % 3)),
                  .options = {.seed = random(), .drop_last = random() % 2 == 0}};
    const std::int64_t epoch = random() % 5;
    for (const std::int64_t ranks : {1, 2, 3}) {
      ASSERT_EQ(disturbed(job, {ranks, ranks, ranks}, epoch, random),
                undisturbed(job, ranks, epoch));
    }
  }
}

// With one rank at the end nothing is repeated or left out: the order is the permutation itself.
TEST(ResumedSampler, ContinuesTheOrderAcrossWorldSizes) {
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i) {
    const Job job{.dataset_size = 50 + static_cast<std::int64_t>(random() % 300),
                  .global_batch = 6 * (1 + static_cast<std::int64_t>(random() % 3)),
                  .options = {.seed = random()}};
    const std::int64_t epoch = random() % 5;
    const Order expected = undisturbed(job, 1, epoch);
    ASSERT_EQ(disturbed(job, {2, 3, 1}, epoch, random), expected);
    ASSERT_EQ(disturbed(job, {3, 1, 2, 1}, epoch, random), expected);
  }
}

TEST(ResumedSampler, OnlyTheLastStepRepeatsOrLeavesOut) {
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    Job job{.dataset_size = 50 + static_cast<std::int64_t>(random() % 300),
            .global_batch = 12,
            .options = {.seed = random()}};
    const Order permutation = undisturbed(job, 1, 0);

    Order order = disturbed(job, {1, 2, 3}, 0, random);
    ASSERT_LE(order.size(), permutation.size() + 2);
    for (std::size_t place = 0; place < order.size(); ++place) {
      ASSERT_EQ(order[place], permutation[place % permutation.size()]);
    }

    job.options.drop_last = true;
    order = disturbed(job, {1, 2, 3}, 0, random);
    ASSERT_GE(order.size() + 2, permutation.size());
    ASSERT_TRUE(std::equal(order.begin(), order.end(), permutation.begin()));
  }
}

TEST(ResumedSampler, AFinishedEpochHasNothingLeftAndTheNextIsWhole) {
  const DistributedSampler before(10, 4, 0);
  const SamplerPosition end = before.position_after(before.size());
  EXPECT_EQ(end.consumed, 10);

  DistributedSampler after(10, 3, 0);
  after.resume(end);
  EXPECT_EQ(after.size(), 0);
  EXPECT_THAT(after.indices(), IsEmpty());
  after.set_epoch(1);
  EXPECT_EQ(after.size(), 4);
}

TEST(ResumedSampler, TakesTheSeedOfThePosition) {
  DistributedSampler sampler(100, 1, 0, {.seed = 1});
  sampler.resume({.seed = 7, .epoch = 3, .consumed = 40});
  const auto rest = sampler.indices();
  DistributedSampler whole(100, 1, 0, {.seed = 7});
  whole.set_epoch(3);
  const auto all = whole.indices();
  EXPECT_EQ(rest, Order(all.begin() + 40, all.end()));
  EXPECT_EQ(sampler.position_after(5), (SamplerPosition{.seed = 7, .epoch = 3, .consumed = 45}));
}

TEST(ResumedSampler, APositionThatIsNotInTheDataSetIsRefused) {
  DistributedSampler sampler(100, 2, 0);
  EXPECT_THAT([&] { sampler.resume({.consumed = 101}); },
              ThrowsMessage<UsageError>(HasSubstr("101 samples consumed, expected 0 to 100")));
  EXPECT_THAT([&] { sampler.resume({.consumed = -1}); },
              ThrowsMessage<UsageError>(HasSubstr("-1 samples consumed, expected 0 to 100")));
  EXPECT_THAT(
      [&] { (void)sampler.position_after(-1); },
      ThrowsMessage<UsageError>(HasSubstr("-1 samples taken by each rank, expected 0 to 50")));
  EXPECT_THAT(
      [&] { (void)sampler.position_after(51); },
      ThrowsMessage<UsageError>(HasSubstr("51 samples taken by each rank, expected 0 to 50")));
}

}  // namespace
}  // namespace lockstep::data
