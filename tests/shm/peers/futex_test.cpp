#include "lockstep/shm/peers/futex.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

#include "lockstep/base/deadline.h"

namespace lockstep::shm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Futex = std::atomic<std::uint32_t>;

class ShmFutex : public ::testing::Test {
 protected:
  struct Page {
    Futex word;
    Futex ready;
  };
  static void* map() {
    return ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  }

  Page& page_ = *new (map()) Page{};
  Deadline started_ = Deadline::in(seconds(30));

  ~ShmFutex() override { ::munmap(&page_, sizeof(Page)); }
  [[nodiscard]] milliseconds elapsed() const { return started_.total() - started_.remaining(); }
};

TEST_F(ShmFutex, SleepsNoLongerThanItsLimit) {
  futex_wait(page_.word, 0, milliseconds(20));
  EXPECT_LT(elapsed(), seconds(10));
}

TEST_F(ShmFutex, SleepsUntilItsLimitIfNothingChanges) {
  // It may return early for no reason, but hardly every time.
  for (int i = 0; i < 20 && elapsed() < milliseconds(20); ++i) {
    futex_wait(page_.word, 0, milliseconds(20));
  }
  EXPECT_GE(elapsed(), milliseconds(20));
}

TEST_F(ShmFutex, DoesNotSleepIfTheWordIsAnotherAlready) {
  page_.word.store(5);
  futex_wait(page_.word, 4, seconds(30));
  EXPECT_LT(elapsed(), seconds(10));
}

TEST_F(ShmFutex, ZeroLimitDoesNotSleep) {
  futex_wait(page_.word, 0, milliseconds(0));
  EXPECT_LT(elapsed(), seconds(10));
}

TEST_F(ShmFutex, AWakeCrossesProcesses) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    page_.ready.store(1);
    while (page_.word.load() == 0) {
      futex_wait(page_.word, 0, seconds(30));
    }
    ::_exit(0);
  }
  while (page_.ready.load() == 0) {
    std::this_thread::yield();
  }
  page_.word.store(1);
  futex_wake(page_.word);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_LT(elapsed(), seconds(25));
}

TEST_F(ShmFutex, AWakeReachesAllThatSleep) {
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 4; ++i) {
    sleepers.emplace_back([&] {
      page_.ready.fetch_add(1);
      while (page_.word.load() == 0) {
        futex_wait(page_.word, 0, seconds(30));
      }
    });
  }
  while (page_.ready.load() < 4) {
    std::this_thread::yield();
  }
  page_.word.store(1);
  futex_wake(page_.word);
  for (auto& sleeper : sleepers) {
    sleeper.join();
  }
  EXPECT_LT(elapsed(), seconds(25));
}

}  // namespace
}  // namespace lockstep::shm
