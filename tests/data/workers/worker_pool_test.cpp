#include "lockstep/data/workers/worker_pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/data/workers/number_results.h"

namespace lockstep::data {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(WorkerPool, GivesResultsInOrderWhoeverIsFaster) {
  std::latch second_is_made(1);
  WorkerPool pool({.num_workers = 2, .prefetch = 4});
  pool.start(
      [&](std::int64_t number) {
        if (number == 0) {
          second_is_made.wait();
        }
        if (number == 1) {
          second_is_made.count_down();
        }
        return number_as_result(number);
      },
      6);
  EXPECT_THAT(all_of(pool), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(pool.next(), nullptr) << "behind the end";
}

TEST(WorkerPool, MakesAsManyAheadAsAskedAndNoMore) {
  constexpr std::int64_t kAhead = 3;
  std::latch ahead(kAhead);
  std::atomic<std::int64_t> asked = 0;
  std::atomic<bool> too_early = false;
  WorkerPool pool({.num_workers = 4, .prefetch = kAhead});
  pool.start(
      [&](std::int64_t number) {
        if (number >= asked + kAhead) {
          too_early = true;
        }
        if (number < kAhead) {
          ahead.count_down();
        }
        return number_as_result(number);
      },
      500);
  ahead.wait();  // For ever, if less than that is made before the first is asked for.
  for (std::int64_t i = 0; i < 500; ++i) {
    ++asked;
    EXPECT_EQ(number_of(pool.next()), i);
  }
  EXPECT_FALSE(too_early);
}

TEST(WorkerPool, AnExceptionComesAtItsPlaceAndTheRestFollows) {
  for (const int workers : {1, 3}) {
    WorkerPool pool({.num_workers = workers, .prefetch = 6});
    pool.start(
        [](std::int64_t number) {
          if (number == 2) {
            throw IoError("no sample in batch 2");
          }
          return number_as_result(number);
        },
        4);
    EXPECT_EQ(number_of(pool.next()), 0);
    EXPECT_EQ(number_of(pool.next()), 1);
    EXPECT_THAT([&] { pool.next(); }, ThrowsMessage<IoError>("no sample in batch 2"));
    EXPECT_THAT(all_of(pool), ElementsAre(3));
  }
}

TEST(WorkerPool, ATimeoutTellsWhatWorkersAreDoing) {
  std::latch go_on(1);
  std::latch third_is_made(1);
  WorkerPool pool({.num_workers = 2, .prefetch = 3, .timeout = milliseconds(300)});
  pool.start(
      [&](std::int64_t number) {
        if (number == 1) {
          go_on.wait();
        }
        if (number == 2) {
          third_is_made.count_down();
        }
        return number_as_result(number);
      },
      3);
  EXPECT_EQ(number_of(pool.next()), 0);
  third_is_made.wait();
  EXPECT_THAT([&] { pool.next(); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("batch 1 is not there after 300 ms"),
                                           HasSubstr("has been at batch 1 for 3"),
                                           HasSubstr("waits for work"))));
  go_on.count_down();
  EXPECT_THAT(all_of(pool), ElementsAre(1, 2)) << "it stays the next one";
}

TEST(WorkerPool, TheTimeoutIsOneForAllPartsOfABatch) {
  std::latch go_on(1);
  WorkerPool pool(
      {.num_workers = 2, .prefetch = 4, .parts = 2, .timeout = std::chrono::seconds(3)});
  pool.start(
      [&](std::int64_t number) {
        if (number == 1) {
          go_on.wait();
        }
        return number_as_result(number);
      },
      4);
  pool.next();
  std::this_thread::sleep_for(std::chrono::seconds(3));  // As if part 0 had taken so long.
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(pool.next(), IoError);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  go_on.count_down();
  for (int number = 1; number < 4; ++number) {
    EXPECT_NE(pool.next(), nullptr) << "after the error there is time again";
  }
}

TEST(WorkerPool, InitializesEachWorkerOnceBeforeItsFirstResult) {
  std::mutex mutex;
  std::multiset<int> calls;
  std::set<std::thread::id> initialized;
  std::latch all_work(3);
  std::atomic<bool> too_early = false;
  WorkerPool pool({.num_workers = 3, .prefetch = 6, .worker_init_fn = [&](int worker) {
                     const std::lock_guard lock(mutex);
                     calls.insert(worker);
                     initialized.insert(std::this_thread::get_id());
                   }});
  for (int epoch = 0; epoch < 2; ++epoch) {
    pool.start(
        [&, epoch](std::int64_t number) {
          {
            const std::lock_guard lock(mutex);
            too_early = too_early || !initialized.contains(std::this_thread::get_id());
          }
          if (epoch == 0 && number < 3) {
            all_work.arrive_and_wait();
          }
          return number_as_result(number);
        },
        30);
    EXPECT_EQ(all_of(pool).size(), 30);
  }
  EXPECT_FALSE(too_early);
  EXPECT_EQ(calls, (std::multiset<int>{0, 1, 2}));
  EXPECT_FALSE(pool.has_init_error());
}

TEST(WorkerPool, AnInitializationThatFailsArrivesInsteadOfEveryResult) {
  for (const int workers : {1, 2, 4}) {
    std::atomic<int> calls = 0;
    WorkerPool pool({.num_workers = workers, .prefetch = 8, .worker_init_fn = [&](int worker) {
                       ++calls;
                       if (worker >= workers / 2) {
                         throw UsageError("worker " + std::to_string(worker) + " has no licence");
                       }
                     }});
    for (int epoch = 0; epoch < 2; ++epoch) {
      pool.start(number_as_result, 3);
      for (int i = 0; i < 2; ++i) {
        EXPECT_THAT(
            [&] { pool.next(); },
            ThrowsMessage<UsageError>("worker " + std::to_string(workers / 2) + " has no licence"));
      }
    }
    EXPECT_EQ(calls, workers);
    EXPECT_TRUE(pool.has_init_error());
  }
}

TEST(WorkerPool, RefusesWhatMakesNoSense) {
  const auto refused = ThrowsMessage<UsageError>(HasSubstr("expected at least 1, 1, 1 and 0"));
  EXPECT_THAT([] { WorkerPool({.num_workers = 0}); }, refused);
  EXPECT_THAT([] { WorkerPool({.prefetch = 0}); }, refused);
  EXPECT_THAT([] { WorkerPool({.timeout = milliseconds(-1)}); }, refused);
}

TEST(WorkerPool, WithoutAJobThereIsNothing) {
  WorkerPool pool({.timeout = milliseconds::max()});
  EXPECT_EQ(pool.next(), nullptr);
  pool.start(number_as_result, 0);
  EXPECT_EQ(pool.next(), nullptr);
}

}  // namespace
}  // namespace lockstep::data
