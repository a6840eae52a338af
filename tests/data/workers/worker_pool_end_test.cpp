// Jobs that are given up, pools that end meanwhile, and forks.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <random>
#include <string>

#include "lockstep/base/error.h"
#include "tests/data/workers/number_results.h"
#include "tests/support/child.h"

namespace lockstep::data {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

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

TEST(WorkerPool, AJobThatWasReplacedLeavesNothingBehind) {
  std::atomic<int> living = 0;
  const auto owner = std::make_shared<Counted>(living);  // Owns what a job has.
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
