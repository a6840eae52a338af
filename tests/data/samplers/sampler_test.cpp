#include "lockstep/data/samplers/sampler.h"

#include <gmock/gmock.h>
#include <torch/data/dataloader.h>
#include <torch/data/datasets/base.h>

#include "lockstep/base/error.h"
#include "lockstep/data/samplers/batch_sampler.h"
#include "lockstep/data/samplers/distributed_sampler.h"
#include "lockstep/data/samplers/random_samplers.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

using Indices = std::vector<std::size_t>;

// A batch is what was asked for.
class Requests : public torch::data::datasets::BatchDataset<Requests, Indices> {
 public:
  Indices get_batch(c10::ArrayRef<std::size_t> request) override { return request.vec(); }
  std::optional<std::size_t> size() const override { return std::nullopt; }
};

template <class Loader>
std::vector<Indices> batches_of(Loader& loader) {
  std::vector<Indices> batches;
  for (Indices& batch : loader) {
    batches.push_back(batch);
  }
  return batches;
}

template <class Loader>
Indices epoch_of(Loader& loader) {
  Indices all;
  for (const Indices& batch : batches_of(loader)) {
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

Indices as_sizes(const std::vector<std::int64_t>& indices) {
  return {indices.begin(), indices.end()};
}

TEST(SequentialSampler, CountsUp) {
  EXPECT_THAT(SequentialSampler(4).indices(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(SequentialSampler(0).indices(), IsEmpty());
  EXPECT_THAT([] { SequentialSampler(-1); }, ThrowsMessage<UsageError>(HasSubstr("size is -1")));
}

TEST(LibTorchLoader, TakesBatchesInOrder) {
  auto loader = torch::data::make_data_loader(Requests(), SequentialSampler(5),
                                              torch::data::DataLoaderOptions(2).workers(1));
  EXPECT_THAT(batches_of(*loader),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
}

// LibTorch's own sampler repeats one order here: the loader has a copy.
TEST(LibTorchLoader, FollowsSetEpoch) {
  DistributedSampler sampler(100, 2, 1, {.seed = 5});
  for (const std::size_t workers : {0, 2}) {
    auto loader = torch::data::make_data_loader(Requests(), sampler,
                                                torch::data::DataLoaderOptions(8).workers(workers));
    for (const std::int64_t epoch : {0, 1, 2}) {
      sampler.set_epoch(epoch);
      DistributedSampler expected(100, 2, 1, {.seed = 5});
      expected.set_epoch(epoch);
      EXPECT_EQ(epoch_of(*loader), as_sizes(expected.indices())) << "epoch " << epoch;
    }
  }
}

TEST(LibTorchLoader, FollowsAResumedPosition) {
  DistributedSampler sampler(10, 1, 0, {.shuffle = false});
  auto loader = torch::data::make_data_loader(Requests(), sampler,
                                              torch::data::DataLoaderOptions(4).workers(0));
  sampler.resume({.consumed = 7});
  EXPECT_THAT(epoch_of(*loader), ElementsAre(7, 8, 9));
}

TEST(LibTorchLoader, SharesAGenerator) {
  const RandomSampler sampler(50, {.generator = seeded_generator(3)});
  auto loader = torch::data::make_data_loader(Requests(), sampler,
                                              torch::data::DataLoaderOptions(8).workers(0));
  const RandomSampler expected(50, {.generator = seeded_generator(3)});
  EXPECT_EQ(epoch_of(*loader), as_sizes(expected.indices()));
  EXPECT_EQ(as_sizes(sampler.indices()), as_sizes(expected.indices()));  // Second epoch.
  EXPECT_EQ(epoch_of(*loader), as_sizes(expected.indices()));            // Third.
}

TEST(LibTorchLoader, TakesTheBatchesOfABatchSampler) {
  auto loader = torch::data::make_data_loader(
      Requests(), BatchSampler(SequentialSampler(7), {.batch_size = 3, .drop_last = true}),
      torch::data::DataLoaderOptions(1).workers(0));
  EXPECT_THAT(batches_of(*loader), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
  EXPECT_EQ(batches_of(*loader).size(), 2);  // And again.
}

TEST(LibTorchLoader, FollowsSetEpochThroughABatchSampler) {
  DistributedSampler sampler(40, 2, 1);
  auto loader = torch::data::make_data_loader(Requests(), BatchSampler(sampler, {.batch_size = 8}),
                                              torch::data::DataLoaderOptions(1).workers(0));
  for (const std::int64_t epoch : {0, 1, 2}) {
    sampler.set_epoch(epoch);
    EXPECT_EQ(epoch_of(*loader), as_sizes(sampler.indices())) << "epoch " << epoch;
  }
}

}  // namespace
}  // namespace lockstep::data
