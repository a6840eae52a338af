// The workers of a DataLoader: errors, timeouts, being left, forks.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/scalar_tensor.h>
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <latch>
#include <map>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/image_folder_dataset.h"
#include "tests/data/files.h"
#include "tests/data/loader/numbered_samples.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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
  EXPECT_EQ(initialized, 2);
  EXPECT_EQ(at::get_num_threads(), 2);
}

TEST(DataLoader, WhatWorkerInitFnThrowsIsAnErrorThatNamesTheWorker) {
  for (const int workers : {1, 2, 3}) {
    std::atomic<int> calls = 0;
    DataLoader loader(Watched(40, [](std::int64_t) {}),
                      {.num_workers = workers, .worker_init_fn = [&](int worker) {
                         ++calls;
                         if (worker == workers - 1) {
                           throw std::out_of_range("no such licence");
                         }
                       }});
    const std::string text =
        "DataLoader: worker_init_fn of worker " + std::to_string(workers - 1) + ": no such licence";
    for (int i = 0; i < 3; ++i) {
      try {
        (void)loader.begin();
        ADD_FAILURE() << workers;
      } catch (const Error& error) {
        EXPECT_EQ(error.what(), text);
        EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
      }
    }
    EXPECT_EQ(calls, 3 * workers) << "each epoch tries with new ones";
  }
}

TEST(DataLoader, TheEpochBehindAWorkerInitFnThatThrewTriesAgain) {
  std::atomic<int> failures_left = 2;
  std::atomic<int> calls = 0;
  DataLoader loader(Watched(12, [](std::int64_t) {}),
                    {.num_workers = 2, .worker_init_fn = [&](int worker) {
                       ++calls;
                       if (worker == 1 && failures_left-- > 0) {
                         throw IoError("no connection");
                       }
                     }});
  const auto fails =
      ThrowsMessage<IoError>("DataLoader: worker_init_fn of worker 1: no connection");
  EXPECT_THAT([&] { (void)loader.begin(); }, fails);
  loader.prefetch();
  EXPECT_THAT([&] { (void)loader.begin(); }, fails);
  EXPECT_EQ(loader.state_dict().epoch, 0) << "nothing of it was given";
  EXPECT_EQ(epoch_of(loader).size(), 12);
  EXPECT_EQ(epoch_of(loader).size(), 12);
  EXPECT_EQ(calls, 3 * 2) << "workers that were initialized stay";
}

TEST(DataLoader, StartsNoMoreWorkersThanThereAreBatches) {
  std::atomic<int> started = 0;
  const auto count = [&](int /*worker*/) { ++started; };
  DataLoader loader(Watched(6, [](std::int64_t) {}),
                    {.batch_size = 2, .num_workers = 1'000'000, .worker_init_fn = count});
  EXPECT_EQ(epoch_of(loader).size(), 3);
  EXPECT_EQ(started, 3);

  started = 0;
  DataLoader resumed(Watched(6, [](std::int64_t) {}),
                     {.batch_size = 2, .num_workers = 3, .worker_init_fn = count});
  resumed.load_state_dict({.consumed = 4});
  EXPECT_EQ(epoch_of(resumed).size(), 1);
  EXPECT_EQ(started, 1);
  EXPECT_EQ(epoch_of(resumed).size(), 3) << "the next epoch has more";
  EXPECT_EQ(started, 1 + 3);
}

TEST(DataLoader, RefusesADataSetThatIsNull) {
  EXPECT_THAT([] { DataLoader(std::shared_ptr<const Dataset>()); },
              ThrowsMessage<UsageError>(HasSubstr("the data set is a null pointer")));
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
