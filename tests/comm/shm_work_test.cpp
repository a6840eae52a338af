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
