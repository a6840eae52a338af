// Receives over several hosts that get no message: theirs is late, or its sender has ended.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::run_on_hosts;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::chrono::seconds kSoonEnough{20};  // The group's timeout is a minute.
const std::vector<std::uint8_t> kDone{1};

// Small and large, by source and from anyone. As
// ShmReceive.OneThatTimedOutLeavesTheMessageToTheNext.
TEST(HostsReceive, OneThatTimedOutLeavesTheMessageToTheNext) {
  run_on_hosts({1, 2}, [](Group& world) {
    const auto backend = world.backend();
    int round = 0;
    for (const int size : {3, 100000}) {
      for (const bool from_anyone : {false, true}) {
        const auto key = "gave up " + std::to_string(round++);
        if (world.rank() == 0) {
          const auto receive = [&](Tensors& message) {
            return from_anyone ? backend->recvAnysource(message, 0) : backend->recv(message, 1, 0);
          };
          Tensors lost{at::full({size}, -1.0F)};
          const auto given_up = receive(lost);
          EXPECT_THAT(
              [&] { given_up->wait(std::chrono::milliseconds(50)); },
              ThrowsMessage<PeerError>(::testing::AllOf(HasSubstr(" on rank 0 of 3: timed out: "),
                                                        HasSubstr(" with tag 0 within 50 ms"))));
          EXPECT_TRUE(given_up->isCompleted());
          EXPECT_FALSE(given_up->isSuccess());
          EXPECT_NE(given_up->exception(), nullptr);
          world.store()->set(key, kDone);
          Tensors message{at::zeros({size})};
          receive(message)->wait(kSoonEnough);
          EXPECT_EQ(message[0][size - 1].item<float>(), 7);
          EXPECT_EQ(lost[0][0].item<float>(), -1);
          EXPECT_THROW(given_up->wait(), PeerError);
        } else if (world.rank() == 1) {
          world.store()->wait({key});
          Tensors message{at::full({size}, 7.0F)};
          backend->send(message, 0, 0)->wait();
        }
      }
    }
    EXPECT_EQ(backend->getError(), c10d::ErrorType::SUCCESS);
    world.barrier();
  });
}

TEST(HostsReceive, AFutureThatTimedOutLeavesTheMessageToTheNext) {
  run_on_hosts({1, 1}, [](Group& world) {
    const auto backend = world.backend();
    Tensors message{at::zeros({100000})};
    if (world.rank() == 0) {
      backend->setTimeout(std::chrono::milliseconds(50));
      Tensors lost{at::zeros({100000})};
      const auto future = backend->recv(lost, 1, 0)->getFuture();
      EXPECT_THAT([&] { future->waitAndThrow(); },
                  ThrowsMessage<PeerError>(HasSubstr("has sent no message")));
      backend->setTimeout(std::chrono::seconds(60));
      world.store()->set("it has timed out", kDone);
      backend->recv(message, 1, 0)->wait();
      EXPECT_EQ(message[0][99999].item<float>(), 7);
    } else {
      world.store()->wait({"it has timed out"});
      message[0].fill_(7);
      backend->send(message, 0, 0)->wait();
    }
    world.barrier();
  });
}

// While messages come: each is received once, in its order, whatever times out.
TEST(HostsReceive, ThoseThatTimeOutWhileMessagesComeLoseNone) {
  run_on_hosts({1, 1}, [](Group& world) {
    constexpr int kMessages = 60;
    const auto backend = world.backend();
    for (int i = 0; i < kMessages; ++i) {
      Tensors message{at::zeros({i % 3 == 0 ? 10 : 300000})};
      if (world.rank() == 1) {
        message[0].fill_(i);
        backend->send(message, 0, 0)->wait();
        continue;
      }
      bool came = false;
      while (!came) {
        try {
          came = backend->recv(message, 1, 0)->wait(std::chrono::milliseconds(1 + i % 2));
        } catch (const PeerError& error) {
          ASSERT_EQ(error.cause(), PeerError::Cause::kLate) << error.what();
        }
      }
      ASSERT_TRUE(message[0].eq(i).all().item<bool>()) << i;
    }
    world.barrier();
  });
}

// Nobody waits: whoever polls sees the end, and why. So does one that asks when all is over.
TEST(HostsReceive, PollingItEndsWhenItsSenderHas) {
  for (const std::vector<int>& hosts : {std::vector<int>{1, 2}, {1, 1, 1}}) {
    run_on_hosts(hosts, [](Group& world) {
      if (world.rank() == 2) {
        world.store()->wait({"rank 0 waits"});
        ::_exit(0);  // Not killed, so that the others are left alone.
      }
      if (world.rank() == 1) {
        world.store()->wait({"rank 0 has seen it"});
        return;
      }
      for (int round = 0; round < 2; ++round) {
        Tensors tensors{at::zeros({3})};
        const auto work = world.backend()->recv(tensors, 2, 4);
        world.store()->set("rank 0 waits", kDone);
        const auto deadline = Deadline::in(kSoonEnough);
        while (!work->isCompleted() && !deadline.passed()) {
          ::usleep(1000);
        }
        ASSERT_TRUE(work->isCompleted());
        EXPECT_FALSE(work->isSuccess());
        ASSERT_NE(work->exception(), nullptr);
        EXPECT_THAT([&] { std::rethrow_exception(work->exception()); },
                    ThrowsMessage<PeerError>(HasSubstr("rank 2")));
      }
      world.store()->set("rank 0 has seen it", kDone);
    });
  }
}

}  // namespace
}  // namespace lockstep::comm
