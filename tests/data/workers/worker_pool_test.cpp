#include "lockstep/data/workers/worker_pool.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/base/child.h"

namespace lockstep::data {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

WorkerPool::Result number_as_result(std::int64_t number) {
  return std::make_shared<std::int64_t>(number);
}

std::int64_t number_of(const WorkerPool::Result& result) {
  return *static_cast<std::int64_t*>(result.get());
}

std::vector<std::int64_t> all_of(WorkerPool& pool) {
  std::vector<std::int64_t> numbers;
  while (const auto result = pool.next()) {
    numbers.push_back(number_of(result));
  }
  return numbers;
}

// Counts those that live.
class Counted {
 public:
  explicit Counted(std::atomic<int>& living) : living_(living) { ++living_; }
  ~Counted() { --living_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& living_;
};

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
}

TEST(WorkerPool, AnInitializationThatFailsArrivesInsteadOfTheResult) {
  std::atomic<int> calls = 0;
  WorkerPool pool({.num_workers = 1, .prefetch = 2, .worker_init_fn = [&](int worker) {
                     if (++calls == 1) {
                       throw UsageError("worker " + std::to_string(worker) + " has no licence");
                     }
                   }});
  pool.start(number_as_result, 3);
  EXPECT_THAT([&] { pool.next(); }, ThrowsMessage<UsageError>("worker 0 has no licence"));
  EXPECT_THAT(all_of(pool), ElementsAre(1, 2));
  EXPECT_EQ(calls, 2);
}

TEST(WorkerPool, AJobThatWasReplacedLeavesNothingBehind) {
  std::atomic<int> living = 0;
  const auto owner = std::make_shared<Counted>(living);  // Of what a job has.
  std::latch begun(1);
  std::latch go_on(1);
  {
    WorkerPool pool({.num_workers = 2, .prefetch = 4});
    pool.start(
        [&, owner](std::int64_t number) -> WorkerPool::Result {
          if (number == 1) {
            begun.count_down();
            go_on.wait();
          }
          return std::make_shared<Counted>(living);
        },
        100);
    begun.wait();
    EXPECT_NE(pool.next(), nullptr);
    pool.start(number_as_result, 3);  // While a worker is at number 1 of the former job.
    go_on.count_down();
    EXPECT_THAT(all_of(pool), ElementsAre(0, 1, 2)) << "none of the former job's";
    pool.start([&](std::int64_t) { return std::make_shared<Counted>(living); }, 100);
    EXPECT_NE(pool.next(), nullptr);
    pool.stop();
    EXPECT_EQ(pool.next(), nullptr);
  }
  EXPECT_EQ(living, 1) << "the test's own";
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(WorkerPool, EndsInTheMiddleOfAJob) {
  std::atomic<int> living = 0;
  for (int i = 0; i < 50; ++i) {
    WorkerPool pool({.num_workers = 3, .prefetch = 6});
    pool.start([&](std::int64_t) { return std::make_shared<Counted>(living); }, 1000);
    for (int taken = 0; taken < i % 7; ++taken) {
      pool.next();
    }
  }
  EXPECT_EQ(living, 0);
}

TEST(WorkerPool, AWorkerThatIsStuckDoesNotHoldUpTheEnd) {
  const auto go_on = std::make_shared<std::latch>(1);
  const auto returned = std::make_shared<std::latch>(1);
  {
    WorkerPool pool({.num_workers = 2, .prefetch = 2, .timeout = milliseconds(50)});
    pool.start(
        [go_on, returned](std::int64_t number) {
          if (number == 0) {
            go_on->wait();
            returned->count_down();
          }
          return number_as_result(number);
        },
        10);
    EXPECT_THROW(pool.next(), IoError);
  }
  go_on->count_down();
  returned->wait();  // It was left alone, with what it uses.
}

TEST(WorkerPool, AForkHasNoWorkersAndEndsInPeace) {
  for (int i = 0; i < 20; ++i) {
    auto pool = std::make_unique<WorkerPool>(
        WorkerPoolOptions{.num_workers = 2, .prefetch = 4, .timeout = std::chrono::seconds(20)});
    pool->start(number_as_result, 1000000);
    pool->next();
    const int status = test::run_in_child([&] {
      try {
        pool->next();
        return 1;
      } catch (const UsageError& error) {
        if (std::string(error.what()).find("a fork") == std::string::npos) {
          return 2;
        }
      }
      pool.reset();
      return 0;
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(number_of(pool->next()), 1) << "the parent goes on";
  }
}

TEST(WorkerPool, RefusesWhatMakesNoSense) {
  const auto refused = ThrowsMessage<UsageError>(HasSubstr("expected at least 1, 1 and 0"));
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

// Jobs of random length, with random failures, some of them given up at a random place.
TEST(WorkerPool, KeepsOrderThroughManyJobs) {
  std::mt19937 random(7);
  std::atomic<int> living = 0;
  for (int i = 0; i < 40; ++i) {
    WorkerPool pool({.num_workers = 1 + static_cast<int>(random() % 5),
                     .prefetch = 1 + static_cast<std::int64_t>(random() % 8),
                     .timeout = std::chrono::seconds(60)});
    for (int job = 0; job < 10; ++job) {
      const auto count = static_cast<std::int64_t>(random() % 60);
      const auto fails = static_cast<std::int64_t>(random() % 60);
      const auto taken = std::min<std::int64_t>(count, static_cast<std::int64_t>(random() % 80));
      pool.start(
          [&living, fails](std::int64_t number) -> WorkerPool::Result {
            const auto counted = std::make_shared<Counted>(living);
            if (number == fails) {
              throw IoError(std::to_string(number));
            }
            const auto pair = std::make_shared<std::pair<std::int64_t, std::shared_ptr<Counted>>>(
                number, counted);
            return {pair, &pair->first};
          },
          count);
      for (std::int64_t number = 0; number < taken; ++number) {
        if (number == fails) {
          ASSERT_THAT([&] { pool.next(); }, ThrowsMessage<IoError>(std::to_string(number)));
        } else {
          ASSERT_EQ(number_of(pool.next()), number);
        }
      }
      if (taken == count) {
        ASSERT_EQ(pool.next(), nullptr);
      }
    }
  }
  EXPECT_EQ(living, 0);
}

}  // namespace
}  // namespace lockstep::data
