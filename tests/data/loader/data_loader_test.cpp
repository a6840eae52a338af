#include "lockstep/data/loader/data_loader.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <gmock/gmock.h>
#include <torch/data/datasets/base.h>
#include <torch/data/datasets/map.h>
#include <torch/data/transforms/stack.h>
#include <torch/data/transforms/tensor.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/combined_datasets.h"
#include "lockstep/data/datasets/generated_images.h"
#include "lockstep/data/datasets/image_folder_dataset.h"
#include "lockstep/data/datasets/tensor_dataset.h"
#include "lockstep/data/samplers/random_samplers.h"
#include "tests/base/child.h"
#include "tests/data/files.h"
#include "tests/python.h"

namespace lockstep::data {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Batches = std::vector<std::vector<std::int64_t>>;

TensorDataset counted_samples(std::int64_t size) {
  return TensorDataset(at::arange(size, at::kLong), at::arange(size, at::kLong) * 10);
}

std::vector<std::int64_t> values(const at::Tensor& tensor) {
  const auto* data = tensor.const_data_ptr<std::int64_t>();
  return {data, data + tensor.numel()};
}

Batches epoch_of(DataLoader& loader) {
  Batches batches;
  for (auto& [data, target] : loader) {
    batches.push_back(values(data));
  }
  return batches;
}

// Calls `look` with the index before each sample is given; sample i is i.
class Watched : public Dataset {
 public:
  explicit Watched(std::int64_t size, std::function<void(std::int64_t)> look)
      : size_(size), look_(std::move(look)) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] Sample get(std::int64_t index) const override {
    look_(index);
    return {at::scalar_tensor(index, at::kLong), {}};
  }

 private:
  std::int64_t size_;
  std::function<void(std::int64_t)> look_;
};

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

TEST(DataLoader, AnErrorArrivesWithIndexAndPath) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("a"));
  for (int i = 0; i < 6; ++i) {
    write_file(folder.file("a/" + std::to_string(i) + ".ppm"), "P3 1 1 255 1 2 3");
  }
  write_file(folder.file("a/4.ppm"), "P3 1 1 255 1");  // Cut off.
  for (const int workers : {0, 2}) {
    DataLoader loader(ImageFolder(index_image_folder(folder.file(""))),
                      {.batch_size = 2, .num_workers = workers});
    auto batch = loader.begin();
    ++batch;
    EXPECT_THAT([&] { ++batch; },
                ThrowsMessage<IoError>(AllOf(HasSubstr("DataLoader: batch 2, sample 4: image '"),
                                             HasSubstr("a/4.ppm'"))));
    EXPECT_EQ(loader.state_dict().consumed, 6);
    ++batch;
    EXPECT_TRUE(batch == loader.end());
  }
}

TEST(DataLoader, AugmentedPicturesDoNotDependOnWorkersOrRanks) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("a"));
  for (int i = 0; i < 12; ++i) {
    write_file(folder.file("a/" + std::to_string(10 + i) + ".ppm"),
               "P3 2 2 255 1 2 3 40 50 60 70 80 90 100 110 " + std::to_string(120 + i));
  }
  const ImageFolder pictures(
      index_image_folder(folder.file(".")),
      Compose({RandomResizedCrop{.size = 4}, ColorJitter{.brightness = {0.5, 1.5}}, ToTensor{}}));
  // The pixels of each picture by what it is, in the second epoch.
  const auto epoch = [&](int workers, std::int64_t ranks) {
    std::map<std::int64_t, at::Tensor> seen;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const DistributedSampler sampler(12, ranks, rank, {.seed = 9});
      DataLoader loader(pictures, {.batch_size = 2, .sampler = sampler, .num_workers = workers});
      loader.set_epoch(1);
      std::int64_t place = 0;
      const auto order = [&] {
        DistributedSampler same(12, ranks, rank, {.seed = 9});
        same.set_epoch(1);
        return same.indices();
      }();
      for (auto& [images, labels] : loader) {
        for (std::int64_t i = 0; i < images.size(0); ++i) {
          seen[order.at(static_cast<std::size_t>(place++))] = images[i];
        }
      }
    }
    return seen;
  };
  const auto expected = epoch(0, 1);
  ASSERT_EQ(expected.size(), 12);
  for (const auto& [workers, ranks] : {std::pair(2, 1), std::pair(3, 2), std::pair(0, 3)}) {
    const auto seen = epoch(workers, ranks);
    ASSERT_EQ(seen.size(), 12);
    for (const auto& [index, image] : seen) {
      EXPECT_TRUE(image.equal(expected.at(index))) << index;
    }
  }
}

TEST(DataLoader, ATimeoutIsNoLostBatch) {
  std::latch go_on(1);
  const auto dataset = std::make_shared<Watched>(3, [&](std::int64_t index) {
    if (index == 1) {
      go_on.wait();
    }
  });
  DataLoader loader(dataset, {.num_workers = 1, .timeout = milliseconds(100)});
  auto batch = loader.begin();
  EXPECT_THAT([&] { ++batch; },
              ThrowsMessage<IoError>(HasSubstr("batch 1 is not there after 100 ms: worker 0 has")));
  EXPECT_EQ(loader.state_dict().consumed, 1);
  go_on.count_down();
  ++batch;
  EXPECT_THAT(values(batch->data), ElementsAre(1));
}

TEST(DataLoader, MakesNoMoreBatchesAheadThanAsked) {
  std::atomic<std::int64_t> asked = 1;
  std::atomic<bool> too_early = false;
  DataLoader loader(Watched(300,
                            [&](std::int64_t index) {
                              if (index / 3 >= asked + 4) {
                                too_early = true;
                              }
                            }),
                    {.batch_size = 3, .num_workers = 2, .prefetch_factor = 2});
  for (auto& batch : loader) {
    (void)batch;
    ++asked;
  }
  EXPECT_FALSE(too_early);
}

TEST(DataLoader, WorkersUseOneThreadAndAreInitialized) {
  std::atomic<int> initialized = 0;
  std::atomic<int> most_threads = 0;
  at::set_num_threads(2);
  DataLoader loader(Watched(40, [&](std::int64_t) { most_threads = at::get_num_threads(); }),
                    {.num_workers = 2, .worker_init_fn = [&](int worker) {
                       EXPECT_LT(worker, 2);
                       ++initialized;
                     }});
  EXPECT_EQ(epoch_of(loader).size(), 40);
  EXPECT_EQ(most_threads, 1);
  EXPECT_GE(initialized, 1);
  EXPECT_LE(initialized, 2);
  EXPECT_EQ(at::get_num_threads(), 2);
}

TEST(DataLoader, CanBeLeftAndBegunAnewAtAnyPlace) {
  DataLoader loader(Watched(64, [](std::int64_t) {}), {.batch_size = 2, .num_workers = 3});
  for (std::size_t stop = 0; stop < 32; ++stop) {
    std::size_t place = 0;
    for (auto& [data, target] : loader) {
      ASSERT_EQ(values(data).front(), static_cast<std::int64_t>(2 * place));
      if (place++ == stop) {
        break;
      }
    }
  }
  EXPECT_EQ(epoch_of(loader).size(), 32);
  auto left = std::make_unique<DataLoader>(Watched(64, [](std::int64_t) {}),
                                           DataLoaderOptions{.num_workers = 2});
  auto batch = left->begin();
  left.reset();  // Before its iterator.
  ++batch;
  EXPECT_THAT(values(batch->data), ElementsAre(1));
}

TEST(DataLoader, AnIteratorOfAnEpochThatWasGivenUpSaysSo) {
  for (const int workers : {0, 2}) {
    DataLoader loader(counted_samples(10), {.num_workers = workers});
    auto old = loader.begin();
    auto fresh = loader.begin();
    EXPECT_THAT([&] { ++old; },
                ThrowsMessage<UsageError>(HasSubstr("this epoch was ended by a later begin()")));
    old = loader.begin();
    EXPECT_THAT(values(old->data), ElementsAre(0));
  }
}

TEST(DataLoader, AForkMayUseItAnew) {
  at::set_num_threads(2);  // Else LibTorch has nothing to make anew in a fork.
  DataLoader loader(Watched(30, [](std::int64_t) {}), {.batch_size = 10, .num_workers = 4});
  auto batch = loader.begin();
  for (int i = 0; i < 20; ++i) {  // What goes wrong there is a matter of chance.
    const int status = test::run_in_child([&] {
      try {
        ++batch;
        return 1;
      } catch (const UsageError&) {
      }
      return epoch_of(loader).size() == 3 ? 0 : 2;
    });
    ASSERT_EQ(status, 0);
  }
  ++batch;
  EXPECT_THAT(values(batch->data).front(), 10) << "the parent goes on";
}

}  // namespace
}  // namespace lockstep::data
