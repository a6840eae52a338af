#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/data/workers/number_results.h"
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

}  // namespace
}  // namespace lockstep::data
