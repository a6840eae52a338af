#include "lockstep/comm/shm_work.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
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

TEST(ShmWork, RanksMayWaitInDifferentOrders) {
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

TEST(ShmWork, FinishesWorksThatNobodyWaitsFor) {
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

TEST(ShmWork, CompletesFuturesByItself) {
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

TEST(ShmWork, AWaitThatIsTooShortLeavesTheWorkRunning) {
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

TEST(ShmReceive, ReceivesByTagAndFromAnyone) {
  on_ranks(3, [](Group& world) {
    const auto backend = world.backend();
    if (world.rank() == 0) {
      int seen = 0;
      for (int i = 0; i < 2; ++i) {
        Tensors message{at::zeros({3})};
        const auto work = backend->recvAnysource(message, 7);
        work->wait();
        EXPECT_EQ(message[0][0].item<float>(), work->sourceRank());
        seen += work->sourceRank();
      }
      EXPECT_EQ(seen, 3);
    } else {
      Tensors message{at::full({3}, static_cast<float>(world.rank()))};
      backend->send(message, 0, 7)->wait();
    }
  });
}

TEST(ShmReceive, TwoRanksMaySendManyMessagesBeforeTheyReceive) {
  on_ranks(2, [](Group& world) {
    const auto backend = world.backend();
    const int other = 1 - world.rank();
    constexpr int kMany = 500;
    for (int i = 0; i < kMany; ++i) {
      Tensors message{at::full({100}, i)};
      (void)backend->send(message, other, 0);
    }
    for (int i = 0; i < kMany; ++i) {
      Tensors message{at::full({100}, -1)};
      backend->recv(message, other, 0)->wait();
      ASSERT_EQ(message[0][99].item<std::int64_t>(), i);
    }
  });
}

TEST(ShmWork, WhatFailsOnOneRankAloneBreaksTheGroupOnAll) {
  on_ranks(2, [](Group& world) {
    // Rank 0 has one value that looks like four: nothing can be written there.
    const auto tensor = world.rank() == 0 ? at::zeros({1}).expand({4}) : at::zeros({4});
    const auto work = all_reduce(world, tensor);
    if (world.rank() == 0) {
      EXPECT_ANY_THROW(work->wait());
    } else {
      work->wait();  // Its own part is right.
    }
    EXPECT_THROW(all_reduce(world, at::zeros({1}))->wait(), PeerError);
  });
}

TEST(ShmReceive, AMessageOfAnotherSizeIsAnErrorOfTheReceiver) {
  on_ranks(2, [](Group& world) {
    const auto backend = world.backend();
    if (world.rank() == 0) {
      Tensors message{at::zeros({4})};
      backend->send(message, 1, 0)->wait();
    } else {
      Tensors message{at::zeros({3})};
      EXPECT_THAT([&] { backend->recv(message, 0, 0)->wait(); },
                  ThrowsMessage<UsageError>(HasSubstr("rank 0 sent 16 bytes")));
    }
    all_reduce(world, at::zeros({1}))->wait();  // The group is as good as before.
  });
}

}  // namespace
}  // namespace lockstep::comm
