#include <gmock/gmock.h>

#include "lockstep/base/run_on_threads.h"
#include "tests/support/huge_stacks.h"

namespace lockstep {
namespace {

TEST(RunOnThreads, TheCallerDoesAllWhereThereAreNoThreads) {
  int runs = 0;
  {
    const test::HugeStacks no_threads;
    run_on_threads(3, [&] { ++runs; });
  }
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace lockstep
