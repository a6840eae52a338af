// A system that gives no thread. Sanitizers choose the size of stacks themselves.
#include <gmock/gmock.h>
#include <pthread.h>

#include "lockstep/base/error.h"
#include "tests/data/workers/number_results.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Larger than the address space, so that no thread can be made.
class HugeStacks {
 public:
  HugeStacks() {
    EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
    pthread_attr_t huge;
    EXPECT_EQ(::pthread_attr_init(&huge), 0);
    EXPECT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 50), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
    ::pthread_attr_destroy(&huge);
  }
  ~HugeStacks() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  HugeStacks(const HugeStacks&) = delete;
  HugeStacks& operator=(const HugeStacks&) = delete;

 private:
  pthread_attr_t before_{};
};

TEST(WorkerPool, AThreadThatCannotBeStartedIsAnErrorThatSaysWhatToDo) {
  {
    const HugeStacks no_threads;
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
