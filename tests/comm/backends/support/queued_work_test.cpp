#include "lockstep/comm/backends/support/queued_work.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>

#include <thread>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::on_ranks;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(QueuedWork, RanksMayWaitInDifferentOrders) {
  on_ranks(2, [](Group& world) {
    Tensors tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 40; ++i) {
      tensors.push_back(at::full({i % 3 == 0 ? 50000 : 10}, static_cast<float>(i)));
      works.push_back(all_reduce(world, tensors.back()));
    }
    for (int i = 0; i < 40; ++i) {
      const int k = world.rank() == 0 ? i : 39 - i;
      works[static_cast<std::size_t>(k)]->wait();
      EXPECT_EQ(tensors[static_cast<std::size_t>(k)][-1].item<float>(),
                2.0F * static_cast<float>(k));
    }
  });
}

TEST(QueuedWork, FinishesWorksThatNobodyWaitsFor) {
  on_ranks(2, [](Group& world) {
    const auto tensor = at::full({10}, 1.0F);
    const auto work = all_reduce(world, tensor);
    const auto deadline = Deadline::in(std::chrono::seconds(20));
    while (!work->isCompleted() && !deadline.passed()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(work->isSuccess());
    EXPECT_EQ(tensor[0].item<float>(), 2);
  });
}

TEST(QueuedWork, CompletesFuturesByItself) {
  on_ranks(2, [](Group& world) {
    const auto tensor = at::full({10}, 1.0F);
    const auto future = all_reduce(world, tensor)->getFuture();
    future->wait();  // c10's own: we cannot run anything in it.
    EXPECT_EQ(future->value().toTensorVector()[0][0].item<float>(), 2);
    const auto failed = all_reduce(world, at::full({world.rank() + 1}, 1.0F))->getFuture();
    failed->wait();
    EXPECT_TRUE(failed->hasError());
  });
}

TEST(QueuedWork, AWaitThatIsTooShortLeavesTheWorkRunning) {
  on_ranks(2, [](Group& world) {
    const auto tensor = at::full({10}, 1.0F);
    if (world.rank() == 0) {
      const auto work = all_reduce(world, tensor);
      EXPECT_THAT([&] { work->wait(std::chrono::milliseconds(50)); },
                  ThrowsMessage<PeerError>(HasSubstr("not done after 50 ms")));
      world.store()->set("gave up", "1");
      work->wait();
    } else {
      world.store()->wait({"gave up"});
      all_reduce(world, tensor)->wait();
    }
    EXPECT_EQ(tensor[0].item<float>(), 2);
  });
}

TEST(QueuedWork, WhatFailsOnOneRankAloneBreaksTheGroupOnAll) {
  on_ranks(2, [](Group& world) {
    // An inference tensor with gaps: rank 0 receives it elsewhere, and may not copy it there.
    Tensors tensors{at::zeros({4})};
    if (world.rank() == 0) {
      const c10::InferenceMode inference;
      tensors = {at::zeros({4, 2}).select(1, 0)};
    }
    c10d::BroadcastOptions options;
    options.rootRank = 1;
    const auto work = world.backend()->broadcast(tensors, options);
    if (world.rank() == 0) {
      EXPECT_ANY_THROW(work->wait());
    } else {
      work->wait();  // Its own part is right.
    }
    EXPECT_THROW(all_reduce(world, at::zeros({1}))->wait(), PeerError);
  });
}

}  // namespace
}  // namespace lockstep::comm
