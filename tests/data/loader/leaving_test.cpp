// Whatever place a loader is left at: nothing that it has made stays.
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/data/loader/data_loader.h"

namespace lockstep::data {
namespace {

// Shared, so that what outlives a test that fails does no harm.
using Living = std::shared_ptr<std::atomic<int>>;

// Counts as living until nobody has it.
at::Tensor counted(std::int64_t value, const Living& living) {
  ++*living;
  living->notify_all();
  return at::from_blob(
      new std::int64_t(value), {1},
      [living](void* memory) {
        delete static_cast<std::int64_t*>(memory);
        --*living;
      },
      at::kLong);
}

class CountedSamples : public Dataset {
 public:
  CountedSamples(bool shares_batches, Living living)
      : shares_(shares_batches), living_(std::move(living)) {}
  [[nodiscard]] std::int64_t size() const override { return 200; }
  [[nodiscard]] Sample get(std::int64_t index) const override {
    return {counted(index, living_), {}};
  }
  [[nodiscard]] bool shares_batches() const override { return shares_; }

 private:
  bool shares_;
  Living living_;
};

// Workers that make batches ahead, alone or together, or none. Samples and batches are counted.
void expect_nothing_lives_after(const std::function<void(DataLoader, const Living&)>& leave) {
  for (const auto& [workers, shares] :
       {std::pair(0, false), std::pair(3, false), std::pair(3, true)}) {
    const auto living = std::make_shared<std::atomic<int>>(0);
    const auto samples = std::make_shared<const CountedSamples>(shares, living);
    leave(DataLoader(samples, {.batch_size = 8,
                               .num_workers = workers,
                               .collate_fn =
                                   [living](const std::vector<Sample>& batch) {
                                     return Sample{
                                         counted(batch.at(0).data.item<std::int64_t>(), living),
                                         {}};
                                   }}),
          living);
    EXPECT_EQ(*living, 0) << workers << " workers";
    EXPECT_EQ(samples.use_count(), 1) << workers << " workers";
  }
}

// Those that workers are at when the loop is left are dropped once they are made.
bool all_go(const Living& living) {
  const auto deadline = Deadline::in(std::chrono::seconds(30));
  while (*living != 0 && !deadline.passed()) {
    ::sched_yield();
  }
  return *living == 0;
}

TEST(LeavingALoader, ABreakDropsWhatWasMadeAhead) {
  expect_nothing_lives_after([](DataLoader loader, const Living& living) {
    for (int stop = 0; stop < 20; ++stop) {
      int place = 0;
      for (auto& batch : loader) {
        (void)batch;
        EXPECT_GT(*living, 0);
        if (place++ == stop) {
          break;
        }
      }
      ASSERT_TRUE(all_go(living)) << *living << " live while the loader waits for its next epoch";
    }
  });
}

TEST(LeavingALoader, ItsEndDropsAllInTheMiddleOfAnEpoch) {
  expect_nothing_lives_after([](DataLoader loader, const Living& living) {
    auto batch = loader.begin();
    ++batch;
    EXPECT_GT(*living, 0);
  });
  expect_nothing_lives_after([](DataLoader loader, const Living& living) {
    auto left = std::make_unique<DataLoader>(std::move(loader));
    auto batch = left->begin();
    left.reset();  // Before its iterator.
    ++batch;
    EXPECT_GT(*living, 0);
  });
}

TEST(LeavingALoader, ItsEndDropsWhatWasPrefetched) {
  expect_nothing_lives_after([](DataLoader loader, const Living& living) {
    loader.prefetch();
    if (loader.options().num_workers > 0) {
      living->wait(0);
    }
  });
}

}  // namespace
}  // namespace lockstep::data
