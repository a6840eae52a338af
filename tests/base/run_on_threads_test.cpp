#include "lockstep/base/run_on_threads.h"

#include <gmock/gmock.h>

#include <atomic>
#include <barrier>
#include <stdexcept>
#include <thread>

namespace lockstep {
namespace {

TEST(RunOnThreads, RunsOnSoManyAtOnce) {
  std::barrier all_there(4);
  std::atomic<int> runs = 0;
  run_on_threads(4, [&] {
    all_there.arrive_and_wait();  // For ever, if one were missing.
    ++runs;
  });
  EXPECT_EQ(runs, 4);
}

TEST(RunOnThreads, OneIsTheCaller) {
  const auto caller = std::this_thread::get_id();
  for (const std::size_t threads : {0, 1}) {
    run_on_threads(threads, [&] { EXPECT_EQ(std::this_thread::get_id(), caller); });
  }
}

TEST(RunOnThreads, ThrowsWhatOneThrewWhenAllHaveEnded) {
  std::atomic<int> turns = 0;
  std::atomic<int> ended = 0;
  EXPECT_THROW(run_on_threads(3,
                              [&] {
                                if (turns++ == 1) {
                                  throw std::runtime_error("one of them");
                                }
                                ++ended;
                              }),
               std::runtime_error);
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace lockstep
