#include "lockstep/data/loader/data_loader.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <gmock/gmock.h>
#include <torch/data/datasets/base.h>
#include <torch/data/datasets/map.h>
#include <torch/data/transforms/stack.h>
#include <torch/data/transforms/tensor.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/combined_datasets.h"
#include "lockstep/data/datasets/generated_images.h"
#include "lockstep/data/samplers/random_samplers.h"
#include "tests/data/loader/numbered_samples.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAreArray;

TEST(DataLoader, GivesDataAndTargetsByStructuredBinding) {
  DataLoader loader(counted_samples(5), {.batch_size = 2});
  EXPECT_EQ(loader.size(), 3);
  std::vector<std::vector<std::int64_t>> targets;
  for (auto& [images, labels] : loader) {
    targets.push_back(values(labels));
    EXPECT_TRUE(labels.equal(images * 10));
  }
  EXPECT_THAT(targets, ElementsAre(ElementsAre(0, 10), ElementsAre(20, 30), ElementsAre(40)));
}

TEST(DataLoader, TheEndOfAnEpochIsNotPassed) {
  DataLoader loader(counted_samples(1), {});
  auto batch = loader.begin();
  ++batch;
  EXPECT_TRUE(batch == std::default_sentinel);
  EXPECT_THAT([&] { ++batch; }, ThrowsMessage<UsageError>(HasSubstr("the epoch is at its end")));
}

TEST(DataLoader, TheOrderIsThatOfPython) {
  const test::TemporaryFolder folder;
  test::run_python("data/loader/loader_cases.py", {"order", folder.file("cases")});
  for (const int workers : {0, 3}) {
    std::ifstream file(folder.file("cases"));
    int lines = 0;
    for (std::string line; std::getline(file, line); ++lines) {
      std::istringstream fields(line);
      std::int64_t size = 0;
      std::uint64_t seed = 0;
      DataLoaderOptions options{.num_workers = workers};
      fields >> size >> options.batch_size >> options.shuffle >> options.drop_last >> seed;
      at::manual_seed(seed);
      DataLoader loader(counted_samples(size), options);
      for (int epoch = 0; epoch < 3; ++epoch) {
        std::size_t count = 0;
        fields >> count;
        Batches expected(count);
        for (auto& batch : expected) {
          std::size_t samples = 0;
          fields >> samples;
          batch.resize(samples);
          for (auto& sample : batch) {
            fields >> sample;
          }
        }
        ASSERT_TRUE(fields);
        ASSERT_EQ(loader.size(), static_cast<std::int64_t>(count)) << line;
        ASSERT_EQ(epoch_of(loader), expected) << line;
      }
      std::int64_t drawn_next = 0;
      fields >> drawn_next;
      ASSERT_EQ(at::empty({}, at::kLong).random_().item<std::int64_t>(), drawn_next)
          << "what a program draws afterwards: " << line;
    }
    EXPECT_EQ(lines, 96);
  }
}

TEST(DataLoader, WorkersDoNotChangeWhatComes) {
  for (const int workers : {0, 1, 2, 5}) {
    for (const int factor : {1, 4}) {
      DataLoaderOptions options{.batch_size = 7,
                                .sampler = DistributedSampler(100, 2, 1, {.seed = 3}),
                                .num_workers = workers};
      if (workers > 0) {
        options.prefetch_factor = factor;
      }
      DataLoader loader(Watched(100, [](std::int64_t) {}), options);
      DataLoader expected(counted_samples(100),
                          {.batch_size = 7, .sampler = DistributedSampler(100, 2, 1, {.seed = 3})});
      for (int epoch = 0; epoch < 3; ++epoch) {
        EXPECT_EQ(epoch_of(loader), epoch_of(expected));
      }
    }
  }
}

// Going on costs nothing that grows with the place: what was consumed is not made again.
TEST(DataLoader, AResumedOneAsksForNothingThatWasConsumed) {
  for (const int workers : {0, 2}) {
    DistributedSampler sampler(60, 2, 1, {.seed = 3});
    sampler.set_epoch(4);
    const std::vector<std::int64_t> order = sampler.indices();
    std::mutex mutex;
    std::vector<std::int64_t> asked;
    DataLoader loader(Watched(60,
                              [&](std::int64_t index) {
                                const std::lock_guard lock(mutex);
                                asked.push_back(index);
                              }),
                      {.batch_size = 5,
                       .sampler = DistributedSampler(60, 2, 1, {.seed = 3}),
                       .num_workers = workers});
    loader.load_state_dict({.seed = 3, .epoch = 4, .consumed = 40});
    EXPECT_EQ(epoch_of(loader).size(), 2U);
    EXPECT_THAT(asked, UnorderedElementsAreArray(order.begin() + 20, order.end())) << workers;
  }
}

TEST(DataLoader, TakesABatchSamplerAndACollateFn) {
  DataLoader loader(counted_samples(10),
                    {.batch_sampler = BatchSampler(SequentialSampler(10), {.batch_size = 4}),
                     .num_workers = 2,
                     .collate_fn = [](const std::vector<Sample>& samples) {
                       return Sample{at::scalar_tensor(samples.size(), at::kLong).view({1}), {}};
                     }});
  EXPECT_EQ(loader.size(), 3);
  EXPECT_THAT(epoch_of(loader), ElementsAre(ElementsAre(4), ElementsAre(4), ElementsAre(2)));
}

TEST(DataLoader, ImagesInMemoryComeInBatches) {
  const ImageDataset images = generated_images({.size = 20});
  DataLoader loader(images, {.batch_size = 8});
  std::int64_t seen = 0;
  for (auto& [data, labels] : loader) {
    for (std::int64_t i = 0; i < data.size(0); ++i, ++seen) {
      ASSERT_TRUE(data[i].equal(images.get(seen).data));
      ASSERT_TRUE(labels[i].equal(images.get(seen).target));
    }
  }
  EXPECT_EQ(seen, 20);
}

// A data set of LibTorch's kind. Its get() changes it, as it may.
class Squares : public torch::data::datasets::Dataset<Squares> {
 public:
  torch::data::Example<> get(std::size_t index) override {
    scratch_ = static_cast<std::int64_t>(index * index);
    return {at::scalar_tensor(scratch_, at::kLong),
            at::scalar_tensor(static_cast<std::int64_t>(index), at::kLong)};
  }
  [[nodiscard]] std::optional<std::size_t> size() const override { return 50; }

 private:
  std::int64_t scratch_ = 0;
};

class NoTargets : public torch::data::datasets::Dataset<NoTargets, torch::data::TensorExample> {
 public:
  torch::data::TensorExample get(std::size_t index) override {
    return at::scalar_tensor(static_cast<std::int64_t>(index), at::kLong);
  }
  [[nodiscard]] std::optional<std::size_t> size() const override { return size_; }

  std::optional<std::size_t> size_ = 3;
};

TEST(DataLoader, TakesDataSetsOfLibTorch) {
  const auto expect_squares = [](DataLoader loader) {
    std::int64_t next = 0;
    for (auto& [data, target] : loader) {
      for (const std::int64_t index : values(target)) {
        EXPECT_EQ(index, next++);
      }
      EXPECT_TRUE(data.equal(target * target));
    }
    EXPECT_EQ(next, 50);
  };
  expect_squares(DataLoader(Squares(), {.batch_size = 4, .num_workers = 3}));
  expect_squares(DataLoader(Squares().map(torch::data::transforms::Stack<>()), {.batch_size = 4}));
  expect_squares(DataLoader(Squares(), {.batch_size = 4, .collate_fn = default_collate}));

  DataLoader without(NoTargets(), {.batch_size = 2});
  EXPECT_THAT(epoch_of(without), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_FALSE((*without.begin()).target.defined());

  NoTargets endless;
  endless.size_ = std::nullopt;
  EXPECT_THAT([&] { DataLoader loader(endless); },
              ThrowsMessage<UsageError>(HasSubstr("the data set has no size")));
}

class Faulty : public torch::data::datasets::Dataset<Faulty> {
 public:
  torch::data::Example<> get(std::size_t index) override {
    if (index == 5) {
      throw std::runtime_error("it is away");
    }
    return {at::scalar_tensor(1), at::scalar_tensor(2)};
  }
  [[nodiscard]] std::optional<std::size_t> size() const override { return 9; }
};

TEST(DataLoader, AnErrorOfLibTorchsDataSetNamesTheSamplesOfTheBatch) {
  for (const int workers : {0, 2}) {
    DataLoader loader(Faulty(), {.batch_size = 3, .num_workers = workers});
    auto batch = loader.begin();
    EXPECT_THAT([&] { ++batch; },
                ThrowsMessage<Error>("DataLoader: batch 1: one of samples 3, 4, 5: it is away"));
  }
}

}  // namespace
}  // namespace lockstep::data
