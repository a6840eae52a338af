// Epochs of a DataLoader, where it is in them, and going on from there.
#include <ATen/Context.h>
#include <ATen/ops/scalar_tensor.h>
#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/data/samplers/random_samplers.h"
#include "tests/data/loader/numbered_samples.h"
#include "tests/support/child.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(DataLoader, ADistributedSamplerMovesOnByItself) {
  DistributedSampler sampler(20, 2, 0, {.seed = 5});
  DataLoader loader(counted_samples(20), {.batch_size = 10, .sampler = sampler});
  DistributedSampler expected(20, 2, 0, {.seed = 5});
  const auto expect_epoch = [&](std::int64_t epoch) {
    expected.set_epoch(epoch);
    EXPECT_EQ(epoch_of(loader), Batches{expected.indices()}) << "epoch " << epoch;
  };
  expect_epoch(0);
  expect_epoch(1);
  (void)loader.begin();  // Given up at once: epoch 2.
  expect_epoch(3);
  loader.set_epoch(3);
  expect_epoch(3);
  expect_epoch(4);
  loader.set_epoch(9);
  expect_epoch(9);
  sampler.set_epoch(2);  // As programs for Python do it.
  expect_epoch(2);
  sampler.set_epoch(3);
  expect_epoch(3);
  expect_epoch(4);
}

TEST(DataLoader, ADistributedSamplerInABatchSamplerMovesOnToo) {
  const DistributedSampler sampler(20, 2, 0, {.seed = 5});
  DataLoader loader(counted_samples(20),
                    {.batch_sampler = BatchSampler(sampler, {.batch_size = 10})});
  const Batches first = epoch_of(loader);
  EXPECT_EQ(loader.state_dict(), (SamplerPosition{.seed = 5, .epoch = 0, .consumed = 20}));
  EXPECT_NE(epoch_of(loader), first);
  EXPECT_EQ(loader.state_dict().epoch, 1);
}

// What random transforms get: seed, epoch, and no more of them than there are.
class Drawing : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 4; }
  [[nodiscard]] Sample get(std::int64_t /*index*/) const override { return {}; }
  [[nodiscard]] Sample get_in_epoch(std::int64_t /*index*/, const EpochSeed& epoch) const override {
    at::Tensor drawn = at::empty({2}, at::kLong);
    drawn[0] = static_cast<std::int64_t>(epoch.seed);
    drawn[1] = epoch.epoch;
    return {drawn, {}};
  }
};

TEST(DataLoader, RandomTransformsGetSeedAndEpochOfTheSampler) {
  DataLoader loader(
      Drawing(),
      {.batch_size = 4, .sampler = DistributedSampler(4, 1, 0, {.seed = 7}), .num_workers = 2});
  EXPECT_THAT(epoch_of(loader), ElementsAre(ElementsAre(7, 0, 7, 0, 7, 0, 7, 0)));
  loader.set_epoch(6);
  EXPECT_THAT(epoch_of(loader), ElementsAre(ElementsAre(7, 6, 7, 6, 7, 6, 7, 6)));
}

TEST(DataLoader, WithoutASeedRandomTransformsFollowTheDefaultGenerator) {
  const auto drawn = [](std::uint64_t seed) {
    at::manual_seed(seed);
    DataLoader loader(Drawing(), {.batch_size = 1});
    epoch_of(loader);
    return epoch_of(loader).at(0);
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
  EXPECT_EQ(drawn(1).at(1), 1) << "the second epoch";
}

TEST(DataLoader, StateCountsWhatWasGivenOverAllRanks) {
  DataLoader loader(
      counted_samples(100),
      {.batch_size = 5, .sampler = DistributedSampler(100, 4, 1, {.seed = 3}), .num_workers = 2});
  EXPECT_EQ(loader.state_dict(), (SamplerPosition{.seed = 3}));
  int batches = 0;
  for (auto& batch : loader) {
    (void)batch;
    ++batches;
    EXPECT_EQ(loader.state_dict(), (SamplerPosition{.seed = 3, .consumed = 20 * batches}));
  }
  EXPECT_EQ(loader.state_dict(), (SamplerPosition{.seed = 3, .consumed = 100}));
  loader.set_epoch(4);
  EXPECT_EQ(loader.state_dict(), (SamplerPosition{.seed = 3, .epoch = 4}));
}

TEST(DataLoader, GoesOnFromAState) {
  const auto options = [](std::int64_t ranks, std::int64_t rank) {
    return DataLoaderOptions{.batch_size = 12 / ranks,
                             .sampler = DistributedSampler(120, ranks, rank, {.seed = 3}),
                             .num_workers = 2};
  };
  DataLoader whole(counted_samples(120), options(1, 0));
  const Batches first = epoch_of(whole);
  const Batches second = epoch_of(whole);

  DataLoader before(counted_samples(120), options(2, 0));
  epoch_of(before);
  auto batch = before.begin();
  ++batch;
  const SamplerPosition state = before.state_dict();
  EXPECT_EQ(state, (SamplerPosition{.seed = 3, .epoch = 1, .consumed = 24}));

  DataLoader after(counted_samples(120), options(1, 0));
  after.load_state_dict(state);
  EXPECT_EQ(after.state_dict(), state);
  EXPECT_EQ(after.size(), 8);
  after.set_epoch(1);  // As the loop of a program does.
  EXPECT_EQ(epoch_of(after), Batches(second.begin() + 2, second.end()));
  after.set_epoch(1);
  EXPECT_EQ(epoch_of(after), second) << "once more, from its start";
  after.load_state_dict({.seed = 3, .epoch = 0, .consumed = 120});
  EXPECT_EQ(epoch_of(after), Batches{}) << "an epoch that was over";
  EXPECT_EQ(epoch_of(after), second);
}

// The index of each sample that workers have made, in any order.
class Made {
 public:
  [[nodiscard]] std::function<void(std::int64_t)> look() {
    return [this](std::int64_t index) {
      const std::lock_guard lock(mutex_);
      indices_.insert(index);
      changed_.notify_all();
    };
  }
  // Waits until there are as many.
  [[nodiscard]] std::set<std::int64_t> first(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return indices_.size() >= count; });
    return std::exchange(indices_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::int64_t> indices_;
};

DataLoaderOptions with_workers(const DistributedSampler& sampler) {
  return {.batch_size = 5, .sampler = sampler, .num_workers = 2, .prefetch_factor = 1};
}

TEST(DataLoader, PrefetchMakesTheFirstBatchesOfTheNextEpoch) {
  Made made;
  DataLoader loader(Watched(30, made.look()), with_workers({30, 1, 0, {.seed = 5}}));
  const Batches first = epoch_of(loader);
  (void)made.first(30);
  loader.prefetch();
  loader.prefetch();  // Once is enough.
  DistributedSampler expected(30, 1, 0, {.seed = 5});
  expected.set_epoch(1);
  const auto indices = expected.indices();
  EXPECT_EQ(made.first(10), std::set(indices.begin(), indices.begin() + 10));
  EXPECT_EQ(loader.state_dict(), (SamplerPosition{.seed = 5, .epoch = 1}));
  loader.set_epoch(1);  // As the loop of a program does.
  loader.load_state_dict({.seed = 5, .epoch = 1});
  auto batch = loader.begin();
  EXPECT_THAT(values(batch->data), ElementsAreArray(indices.begin(), indices.begin() + 5));
  EXPECT_EQ(loader.state_dict(), (SamplerPosition{.seed = 5, .epoch = 1, .consumed = 5}));
  for (; batch != loader.end(); ++batch) {
  }
  EXPECT_EQ(made.first(20).size(), 20U) << "the first ten were not made again";
  loader.set_epoch(0);
  EXPECT_EQ(epoch_of(loader), first);
}

TEST(DataLoader, WhatWasPrefetchedIsDroppedIfTheNextEpochIsAnother) {
  DistributedSampler sampler(30, 1, 0, {.seed = 5});
  DataLoader loader(counted_samples(30), with_workers(sampler));
  const auto expect_epoch = [&](std::int64_t epoch) {
    DistributedSampler expected(30, 1, 0, {.seed = 5});
    expected.set_epoch(epoch);
    std::vector<std::int64_t> given;
    for (const auto& batch : epoch_of(loader)) {
      given.insert(given.end(), batch.begin(), batch.end());
    }
    EXPECT_EQ(given, expected.indices()) << "epoch " << epoch;
  };
  loader.prefetch();
  loader.set_epoch(3);
  expect_epoch(3);
  loader.prefetch();
  sampler.set_epoch(7);  // As programs for Python do it.
  expect_epoch(7);
  loader.prefetch();
  loader.load_state_dict({.seed = 5, .epoch = 2});
  expect_epoch(2);
  loader.prefetch();
  loader.set_epoch(2);
  expect_epoch(2);
  loader.prefetch();
  sampler.set_epoch(9);
  loader.prefetch();
  expect_epoch(9);
  loader.prefetch();
  const int status = test::run_in_child([&] {
    expect_epoch(10);
    return HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(status, 0) << "in a fork";
  expect_epoch(10);
  loader.prefetch();  // Ends unused.
}

TEST(DataLoader, PrefetchEndsTheEpochBefore) {
  DataLoader loader(counted_samples(30), with_workers({30, 1, 0}));
  auto batch = loader.begin();
  loader.prefetch();
  EXPECT_THAT([&] { ++batch; }, ThrowsMessage<UsageError>(HasSubstr("ended by a later begin()")));
  EXPECT_EQ(epoch_of(loader).size(), 6U);
}

TEST(DataLoader, AnEpochWhoseFirstBatchFailsIsBegunAgain) {
  for (const int workers : {0, 2}) {
    std::atomic<std::int64_t> broken = -1;
    DataLoader loader(Watched(6,
                              [&](std::int64_t index) {
                                if (index == broken) {
                                  throw IoError("the disk is away");
                                }
                              }),
                      {.batch_size = 2,
                       .sampler = DistributedSampler(6, 1, 0, {.shuffle = false, .seed = 3}),
                       .num_workers = workers});
    const auto expect_failure = [&](std::int64_t index, const SamplerPosition& place) {
      broken = index;
      for (int i = 0; i < 2; ++i) {
        EXPECT_THAT([&] { (void)loader.begin(); },
                    ThrowsMessage<IoError>(HasSubstr("the disk is away")));
        EXPECT_EQ(loader.state_dict(), place);
      }
      broken = -1;
    };
    expect_failure(0, {.seed = 3});
    EXPECT_EQ(epoch_of(loader).size(), 3U);
    EXPECT_EQ(loader.state_dict().epoch, 0);
    expect_failure(0, {.seed = 3, .epoch = 1});
    broken = 0;  // Workers make the first batch at once.
    loader.prefetch();
    expect_failure(0, {.seed = 3, .epoch = 1});
    loader.set_epoch(1);  // As the loop of a program does.
    EXPECT_THAT(epoch_of(loader),
                ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
    EXPECT_EQ(loader.state_dict().epoch, 1);
    loader.load_state_dict({.seed = 3, .epoch = 5, .consumed = 2});
    expect_failure(2, {.seed = 3, .epoch = 5, .consumed = 2});
    EXPECT_THAT(epoch_of(loader), ElementsAre(ElementsAre(2, 3), ElementsAre(4, 5)));
    EXPECT_EQ(loader.state_dict().epoch, 5);
  }
}

TEST(DataLoader, WithoutASeedAnEpochWhoseFirstBatchFailsKeepsItsNumber) {
  class Broken : public Drawing {
   public:
    explicit Broken(const std::atomic<bool>& broken) : broken_(broken) {}
    [[nodiscard]] Sample get_in_epoch(std::int64_t index, const EpochSeed& epoch) const override {
      if (broken_) {
        throw IoError("the disk is away");
      }
      return Drawing::get_in_epoch(index, epoch);
    }

   private:
    const std::atomic<bool>& broken_;
  };
  std::atomic<bool> broken = true;
  DataLoader loader(std::make_shared<Broken>(broken), {.shuffle = true});
  EXPECT_THROW((void)loader.begin(), IoError);
  broken = false;
  EXPECT_EQ(epoch_of(loader).at(0).at(1), 0) << "the first epoch";
  EXPECT_EQ(epoch_of(loader).at(0).at(1), 1);
}

TEST(DataLoader, AnEpochWhoseTailIsLeftOutIsOver) {
  DataLoader loader(counted_samples(10),
                    {.batch_size = 4, .sampler = DistributedSampler(10, 1, 0), .drop_last = true});
  epoch_of(loader);
  EXPECT_EQ(loader.state_dict().consumed, 10);
}

TEST(DataLoader, TheDefaultOrderHasAStateARandomOneHasNone) {
  DataLoader sequential(counted_samples(10), {.batch_size = 4});
  (void)sequential.begin();
  EXPECT_EQ(sequential.state_dict().consumed, 4);
  const DataLoader shuffled(counted_samples(10), {.batch_size = 4, .shuffle = true});
  EXPECT_THAT([&] { (void)shuffled.state_dict(); },
              ThrowsMessage<UsageError>(HasSubstr("expected a DistributedSampler")));
}

}  // namespace
}  // namespace lockstep::data
