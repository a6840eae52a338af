#include "lockstep/data/loader/shared_batches.h"

#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <latch>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/combined_datasets.h"
#include "lockstep/data/datasets/image_folder_dataset.h"
#include "tests/data/files.h"
#include "tests/data/loader/numbered_samples.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Its workers make batches together.
class Costly : public Watched {
 public:
  using Watched::Watched;
  [[nodiscard]] bool shares_batches() const override { return true; }
};

// Two workers, and two parts of four samples.
DataLoaderOptions two_parts() {
  return {.batch_size = 8, .num_workers = 2, .timeout = std::chrono::seconds(20)};
}

TEST(SharedBatches, TheLastPartPutsTheBatchTogether) {
  const auto plan = std::make_shared<const EpochPlan>(
      std::vector<std::int64_t>{5, 2, 9, 4, 7, 1, 0}, 5, /*drop_last=*/false, EpochSeed{});
  const auto maker = std::make_shared<const BatchMaker>(
      std::make_shared<Costly>(10, [](std::int64_t) {}), nullptr);
  SharedBatches batches(plan, maker, Transfer(false, std::nullopt), 3);
  const auto last = batches.make_part(2);
  const auto of_next = batches.make_part(3);
  const auto first = batches.make_part(0);
  EXPECT_FALSE(last->batch.data.defined());
  EXPECT_EQ(batches.make_part(1), first) << "all parts give the same";
  EXPECT_EQ(first, last);
  EXPECT_THAT(values(first->batch.data), ElementsAre(5, 2, 9, 4, 7));
  batches.make_part(5);
  EXPECT_FALSE(of_next->batch.data.defined());
  batches.make_part(4);
  EXPECT_THAT(values(of_next->batch.data), ElementsAre(1, 0)) << "fewer samples than parts";
}

TEST(SharedBatches, ABatchWithAPartThatNobodyMadeCanBeDropped) {
  const auto plan = std::make_shared<const EpochPlan>(std::vector<std::int64_t>{5, 2}, 2,
                                                      /*drop_last=*/false, EpochSeed{});
  const auto maker = std::make_shared<const BatchMaker>(
      std::make_shared<Costly>(10, [](std::int64_t) {}), nullptr);
  SharedBatches batches(plan, maker, Transfer(false, std::nullopt), 2);
  const std::weak_ptr<Transferred> batch = batches.make_part(0);
  EXPECT_FALSE(batch.expired()) << "it waits for part 1";
  batches.drop(0);
  EXPECT_TRUE(batch.expired());
}

TEST(DataLoader, WorkersMakeABatchTogether) {
  std::latch both(2);
  DataLoader loader(Costly(8,
                           [&](std::int64_t index) {
                             if (index == 0 || index == 4) {
                               both.arrive_and_wait();  // For ever, if one worker made all.
                             }
                           }),
                    two_parts());
  EXPECT_THAT(epoch_of(loader), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)));
}

TEST(DataLoader, OfTheErrorsInABatchThatOfTheFirstSampleArrives) {
  std::latch later_one(1);
  DataLoader loader(Costly(24,
                           [&](std::int64_t index) {
                             if (index == 9) {
                               later_one.wait();
                               throw IoError("first");
                             }
                             if (index == 14) {
                               later_one.count_down();
                               throw UsageError("second");
                             }
                           }),
                    two_parts());
  auto batch = loader.begin();
  EXPECT_THAT([&] { ++batch; }, ThrowsMessage<IoError>("DataLoader: batch 1, sample 9: first"));
  EXPECT_EQ(loader.state_dict().consumed, 16);
  ++batch;
  EXPECT_THAT(values(batch->data), ElementsAre(16, 17, 18, 19, 20, 21, 22, 23));
  ++batch;
  EXPECT_TRUE(batch == loader.end());
}

TEST(DataLoader, AWorkerThatCannotBeginFailsTheFirstSharedBatch) {
  auto options = two_parts();
  options.worker_init_fn = [](int worker) {
    if (worker == 1) {
      throw IoError("no connection");
    }
  };
  DataLoader loader(Costly(24, [](std::int64_t) {}), options);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT([&] { (void)loader.begin(); },
                ThrowsMessage<IoError>("DataLoader: worker_init_fn of worker 1: no connection"));
  }
}

TEST(DataLoader, ATimeoutOfAPartNamesTheBatchAndLosesNothing) {
  std::latch go_on(1);
  auto options = two_parts();
  options.timeout = std::chrono::seconds(3);
  DataLoader loader(Costly(16,
                           [&](std::int64_t index) {
                             if (index == 12) {
                               go_on.wait();
                             }
                           }),
                    options);
  auto batch = loader.begin();
  EXPECT_THAT([&] { ++batch; },
              ThrowsMessage<IoError>(AllOf(HasSubstr("batch 1 is not there after 3 s"),
                                           HasSubstr("has been at batch 1 for"))));
  EXPECT_EQ(loader.state_dict().consumed, 8);
  go_on.count_down();
  ++batch;
  EXPECT_THAT(values(batch->data), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
}

TEST(DataLoader, MakesNoMoreSharedBatchesAheadThanAsked) {
  std::atomic<std::int64_t> asked = 1;
  std::atomic<bool> too_early = false;
  auto options = two_parts();
  options.prefetch_factor = 2;
  DataLoader loader(Costly(800,
                           [&](std::int64_t index) {
                             if (index / 8 >= asked + 4) {
                               too_early = true;
                             }
                           }),
                    options);
  for (auto& batch : loader) {
    (void)batch;
    ++asked;
  }
  EXPECT_FALSE(too_early);
}

void expect_same_batches(const std::shared_ptr<const Dataset>& pictures,
                         const DataLoaderOptions& options) {
  const auto epoch = [&](int workers) {
    DataLoaderOptions with_workers = options;
    with_workers.num_workers = workers;
    with_workers.sampler = DistributedSampler(pictures->size(), 1, 0, {.seed = 9});
    DataLoader loader(pictures, with_workers);
    std::vector<Sample> batches;
    for (auto& batch : loader) {
      batches.push_back({batch.data.clone(), batch.target.clone()});
    }
    return batches;
  };
  const auto expected = epoch(0);
  ASSERT_EQ(expected.size(), 3U);
  for (const int workers : {1, 2, 3, 5}) {
    const auto batches = epoch(workers);
    ASSERT_EQ(batches.size(), expected.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      EXPECT_TRUE(batches[i].data.equal(expected[i].data)) << workers << " workers, batch " << i;
      EXPECT_TRUE(batches[i].target.equal(expected[i].target)) << workers << " workers";
    }
  }
}

TEST(DataLoader, SharedBatchesAreThoseOfOneThread) {
  const test::TemporaryFolder folder;
  for (int i = 0; i < 45; ++i) {
    const std::string of_class = folder.file("class" + std::to_string(i % 3));
    std::filesystem::create_directories(of_class);
    write_file(of_class + "/" + std::to_string(10 + i) + ".ppm",
               "P3 2 2 255 1 2 3 40 50 60 70 80 90 100 110 " + std::to_string(120 + i));
  }
  const auto index = index_image_folder(folder.file("."));
  const auto crops = std::make_shared<ImageFolder>(
      index,
      Compose({RandomResizedCrop{.size = 4}, ColorJitter{.brightness = {0.5, 1.5}}, ToTensor{}}));
  const auto any_size = std::make_shared<ImageFolder>(index, Compose({ToTensor{}}));
  ASSERT_TRUE(crops->start_batch({}, {}));
  ASSERT_FALSE(any_size->start_batch({}, {}));
  expect_same_batches(crops, {.batch_size = 20});
  expect_same_batches(any_size, {.batch_size = 20});
  expect_same_batches(crops, {.batch_size = 20, .collate_fn = default_collate});
  expect_same_batches(crops,
                      {.batch_size = 20, .batch_transform = MixUp{.alpha = 0.3, .num_classes = 3}});
  std::vector<std::int64_t> reversed;
  for (std::int64_t i = 44; i >= 0; --i) {
    reversed.push_back(i);
  }
  expect_same_batches(std::make_shared<Subset>(crops, reversed), {.batch_size = 20});
  const auto twice =
      std::make_shared<ConcatDataset>(std::vector<std::shared_ptr<const Dataset>>{crops, crops});
  EXPECT_TRUE(twice->shares_batches());
  expect_same_batches(twice, {.batch_size = 40});
}

}  // namespace
}  // namespace lockstep::data
