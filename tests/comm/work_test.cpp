#include "lockstep/comm/work.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

TEST(Work, MayBeAwaitedTwiceAndByCopies) {
  testing::run_ranks(2, [](Group& world) {
    const auto tensor = at::full({2}, 5, at::kLong);
    Work work = world.all_reduce(tensor, {.op = ReduceOp::kAvg});
    Work copy = work;
    work.wait();
    work.wait();
    copy.wait();  // A second division would show.
    EXPECT_EQ(tensor[0].item<std::int64_t>(), 5);
    EXPECT_TRUE(work.is_completed());
    EXPECT_TRUE(work.c10d_work()->isCompleted());
  });
}

TEST(Work, IsNotCompletedWhileAPeerIsMissing) {
  testing::run_ranks(2, [](Group& world) {
    const auto tensor = at::full({1}, 1.0);
    if (world.rank() == 0) {
      Work work = world.all_reduce(tensor);
      EXPECT_FALSE(work.is_completed());
      world.broadcast(tensor.clone(), 0).wait();
      work.wait();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      Work work = world.all_reduce(tensor);
      world.broadcast(tensor.clone(), 0).wait();
      work.wait();
    }
  });
}

}  // namespace
}  // namespace lockstep
