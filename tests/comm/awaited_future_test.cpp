#include "lockstep/comm/awaited_future.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::run_on_hosts;
using lockstep::testing::Tensors;

// Its work is dropped at once: the future alone is held.
void receive_by_future(Group& world) {
  const auto backend = world.backend();
  if (world.rank() == 0) {
    Tensors tensors{at::zeros({2, 3}).t()};
    const auto future = backend->recv(tensors, 1, 4)->getFuture();
    EXPECT_FALSE(future->completed());
    world.store()->set("rank 0 waits", std::vector<std::uint8_t>{1});
    future->wait();
    EXPECT_FALSE(future->hasError());
    EXPECT_EQ(future->value().toTensorVector().at(0).sum().item<float>(), 18);
    EXPECT_EQ(tensors[0].sum().item<float>(), 18);
  } else if (world.rank() == 1) {
    world.store()->wait({"rank 0 waits"});
    Tensors tensors{at::full({6}, 3.0F)};
    backend->send(tensors, 0, 4)->wait();
  }
  world.barrier();
}

TEST(AwaitedFuture, OfAMessageOnAHost) { lockstep::testing::on_ranks(2, receive_by_future); }

TEST(AwaitedFuture, OfAMessageBetweenHosts) { run_on_hosts({1, 1, 1}, receive_by_future); }

TEST(AwaitedFuture, HasTheErrorOfAReceiveThatFails) {
  lockstep::testing::on_ranks(2, [](Group& world) {
    if (world.rank() == 0) {
      Tensors tensors{at::zeros({3})};
      const auto work = world.backend()->recv(tensors, 1, 4);
      const auto future = work->getFuture();
      world.store()->set("rank 0 waits", std::vector<std::uint8_t>{1});
      while (!future->completed()) {
        ::usleep(1000);
      }
      EXPECT_TRUE(future->hasError());
    } else {
      world.store()->wait({"rank 0 waits"});
      world.destroy();  // Nothing can come from it any more.
    }
  });
}

}  // namespace
}  // namespace lockstep::comm
