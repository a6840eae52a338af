// Not for sanitizers.
#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/data/workers/number_results.h"
#include "tests/support/child.h"
#include "tests/support/huge_stacks.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(WorkerPool, AThreadThatCannotBeStartedIsAnErrorThatSaysWhatToDo) {
  {
    const test::HugeStacks no_threads;
    EXPECT_THAT([] { WorkerPool({.num_workers = 3}); },
                ThrowsMessage<IoError>(AllOf(HasSubstr("worker 0 of 3 cannot be started"),
                                             HasSubstr("lower num_workers (--workers)"))));
  }
  WorkerPool pool({.num_workers = 2});
  pool.start(number_as_result, 4);
  EXPECT_EQ(all_of(pool).size(), 4);
}

// Such workers have ended; who could join their threads is not in the fork, which the thread
// sanitizer takes for a leak.
TEST(WorkerPool, AForkMayEndThatOfWorkersThatCouldNotBegin) {
  auto pool = std::make_unique<WorkerPool>(WorkerPoolOptions{
      .num_workers = 2, .worker_init_fn = [](int) { throw IoError("no license"); }});
  pool->start(number_as_result, 10);
  EXPECT_THROW(pool->next(), IoError);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // Until they have left their loops.
  EXPECT_EQ(test::run_in_child([&] {
              pool.reset();
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace lockstep::data
