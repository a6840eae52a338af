#include "lockstep/comm/backends/hosts/message_work.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <future>
#include <utility>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::kTwoHosts;
using lockstep::testing::on_ranks;
using lockstep::testing::run_on_hosts;
using lockstep::testing::run_ranks;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using FuturePointer = c10::intrusive_ptr<c10::ivalue::Future>;

constexpr std::chrono::seconds kPrompt{20};  // The group's timeout is a minute.

void say(Group& world, const std::string& key) {
  world.store()->set(key, std::vector<std::uint8_t>{1});
}

bool completes(const FuturePointer& future) {
  const auto deadline = Deadline::in(kPrompt);
  while (!future->completed() && !deadline.passed()) {
    ::usleep(1000);
  }
  return future->completed();
}

TEST(MessageWork, AFailureEndsTheGroupOnAllRanks) {
  run_ranks(
      2,
      [](Group& world) {
        if (world.rank() == 0) {
          Tensors tensors{at::zeros({100000})};
          EXPECT_THAT(
              [&] { world.backend()->send(tensors, 1, 0)->wait(std::chrono::milliseconds(300)); },
              ThrowsMessage<PeerError>(::testing::AllOf(
                  HasSubstr("send on rank 0 of 2"), HasSubstr("rank 1 has not taken the message"),
                  HasSubstr("within 300 ms"), HasSubstr("it is on host"))));
          say(world, "rank 0 waited in vain");
        } else {
          world.store()->wait({"rank 0 waited in vain"});
        }
        EXPECT_THROW(world.barrier(), PeerError);
      },
      kTwoHosts);
}

// A future of each kind of group: on one host and over several. The work is dropped at once.
void receive_by_future(Group& world) {
  const auto backend = world.backend();
  if (world.rank() == 0) {
    Tensors tensors{at::zeros({2, 3}).t()};
    Tensors later{at::zeros({1})};
    const auto unsent = backend->recv(later, 1, 3)->getFuture();
    const auto future = backend->recv(tensors, 1, 4)->getFuture();
    EXPECT_FALSE(future->completed());
    say(world, "rank 0 waits");
    ASSERT_TRUE(completes(future));
    EXPECT_FALSE(future->hasError());
    EXPECT_EQ(future->value().toTensorVector().at(0).sum().item<float>(), 18);
    EXPECT_EQ(tensors[0].sum().item<float>(), 18);
    EXPECT_FALSE(unsent->completed()) << "whatever was posted before";
    say(world, "rank 0 has it");
    EXPECT_TRUE(completes(unsent));
  } else if (world.rank() == 1) {
    world.store()->wait({"rank 0 waits"});
    Tensors tensors{at::full({6}, 3.0F)};
    backend->send(tensors, 0, 4)->wait();
    world.store()->wait({"rank 0 has it"});
    Tensors later{at::zeros({1})};
    backend->send(later, 0, 3)->wait();
  }
  world.barrier();
}

TEST(ReceiveFuture, CompletesWhenTheMessageHasCome) {
  on_ranks(2, receive_by_future);
  run_on_hosts({1, 2}, receive_by_future);
}

void lose_the_sender(Group& world) {
  const int last = world.size() - 1;
  if (world.rank() == 0) {
    Tensors tensors{at::zeros({3})};
    const auto future = world.backend()->recv(tensors, last, 4)->getFuture();
    say(world, "rank 0 waits");
    ASSERT_TRUE(completes(future));
    EXPECT_TRUE(future->hasError());
    EXPECT_THAT(future->tryRetrieveErrorMessage(), HasSubstr("rank " + std::to_string(last)));
    EXPECT_THROW(future->waitAndThrow(), PeerError);
  } else if (world.rank() == last) {
    world.store()->wait({"rank 0 waits"});
    ::_exit(0);  // Not killed, so that the others are left alone.
  }
}

TEST(ReceiveFuture, HasAnErrorWhenTheSenderEnds) {
  on_ranks(2, lose_the_sender);
  run_on_hosts({1, 2}, lose_the_sender);
}

// With the work and without it.
void destroy_with_a_receive(Group& world) {
  for (const bool keeps_work : {false, true}) {
    auto group = world.new_group({0, 1});
    if (group.rank() == 0) {
      Tensors tensors{at::zeros({3})};
      auto work = group.backend()->recv(tensors, 1, 4);
      const auto future = work->getFuture();
      if (!keeps_work) {
        work.reset();
      }
      const auto begin = std::chrono::steady_clock::now();
      group.destroy();
      ASSERT_TRUE(completes(future));
      EXPECT_LT(std::chrono::steady_clock::now() - begin, kPrompt);
      EXPECT_TRUE(future->hasError());
      EXPECT_THAT(future->tryRetrieveErrorMessage(), HasSubstr("left the group"));
    }
    world.barrier();
  }
}

TEST(ReceiveFuture, HasAnErrorWhenItsGroupIsDestroyed) {
  on_ranks(2, destroy_with_a_receive);
  run_on_hosts({1, 1}, destroy_with_a_receive);
}

// What a future calls runs in the group's own thread, which cannot wait for itself.
void destroy_in_a_callback(Group& world) {
  auto group = std::make_shared<Group>(world.new_group({0, 1}));
  Tensors tensors{at::zeros({3})};
  if (world.rank() == 0) {
    const auto future = group->backend()->recv(tensors, 1, 4)->getFuture();
    std::promise<void> destroyed;
    future->addCallback(
        [group = std::exchange(group, nullptr), &destroyed](c10::ivalue::Future&) mutable {
          group.reset();
          destroyed.set_value();
        });
    say(world, "rank 0 waits");
    EXPECT_EQ(destroyed.get_future().wait_for(kPrompt), std::future_status::ready);
  } else {
    world.store()->wait({"rank 0 waits"});
    group->backend()->send(tensors, 0, 4)->wait();
  }
  world.barrier();
}

TEST(ReceiveFuture, ItsCallbackMayDestroyTheGroup) {
  on_ranks(2, destroy_in_a_callback);
  run_on_hosts({1, 1}, destroy_in_a_callback);
}

// The collective needs messages itself, which come while the callback waits.
void wait_for_a_collective_in_a_callback(Group& world) {
  const auto all_to_all = [&] {
    Tensors given;
    Tensors taken;
    for (int rank = 0; rank < world.size(); ++rank) {
      given.push_back(at::full({20000}, static_cast<float>(world.rank())));
      taken.push_back(at::zeros({20000}));
    }
    world.backend()->alltoall(taken, given)->wait();
    for (int rank = 0; rank < world.size(); ++rank) {
      EXPECT_EQ(taken[static_cast<std::size_t>(rank)][0].item<int>(), rank);
    }
  };
  Tensors tensors{at::zeros({3})};
  if (world.rank() == 0) {
    std::promise<void> done;
    world.backend()->recv(tensors, 1, 4)->getFuture()->addCallback([&](c10::ivalue::Future&) {
      all_to_all();
      done.set_value();
    });
    say(world, "rank 0 waits");
    ASSERT_EQ(done.get_future().wait_for(kPrompt), std::future_status::ready);
  } else {
    world.store()->wait({"rank 0 waits"});
    if (world.rank() == 1) {
      world.backend()->send(tensors, 0, 4)->wait();
    }
    all_to_all();
  }
  world.barrier();
}

TEST(ReceiveFuture, ItsCallbackMayWaitForACollective) {
  on_ranks(2, wait_for_a_collective_in_a_callback);
  run_on_hosts({1, 2}, wait_for_a_collective_in_a_callback);
}

// The message is sent when the callback is there: that of a future which is complete runs at once,
// in the thread that adds it.
TEST(ReceiveFuture, ACallbackThatThrowsHarmsNobody) {
  const auto body = [](Group& world) {
    Tensors tensors{at::zeros({3})};
    for (const int tag : {1, 2}) {
      const auto added = "callback " + std::to_string(tag);
      if (world.rank() == 0) {
        const auto work = world.backend()->recv(tensors, 1, tag);
        const auto future = work->getFuture();
        future->addCallback(
            [](c10::ivalue::Future&) { throw std::runtime_error("the user's own"); });
        say(world, added);
        EXPECT_TRUE(completes(future));
        EXPECT_FALSE(future->hasError());
      } else {
        world.store()->wait({added});
        world.backend()->send(tensors, 0, tag)->wait();
      }
      world.barrier();
    }
  };
  on_ranks(2, body);
  run_on_hosts({1, 1}, body);
}

// Its own wait fails because of that; the others, who do not wait for it, go on.
TEST(MessageWork, ARankThatLeavesBreaksNothing) {
  run_on_hosts({1, 1, 1}, [](Group& world) {
    auto group = world.new_group({0, 1, 2});
    Tensors tensors{at::zeros({100000})};
    if (world.rank() == 0) {
      const auto work = group.backend()->recv(tensors, 1, 4);
      group.backend()->shutdown();
      EXPECT_THAT([&] { work->wait(); }, ThrowsMessage<PeerError>(HasSubstr("has left the group")));
      say(world, "rank 0 has left");
    } else {
      world.store()->wait({"rank 0 has left"});
      if (world.rank() == 1) {
        ::usleep(2500000);  // So long rank 2 looks whether the group has ended.
        group.backend()->send(tensors, 2, 5)->wait();
      } else {
        EXPECT_NO_THROW(group.backend()->recv(tensors, 1, 5)->wait());
      }
      EXPECT_EQ(group.backend()->getError(), c10d::ErrorType::SUCCESS);
    }
    world.barrier();
  });
}

// It leaves when its send is done, and the receiver may not have looked yet.
TEST(MessageWork, ALargeMessageArrivesAlthoughItsSenderLeaves) {
  run_on_hosts({1, 2}, [](Group& world) {
    auto group = world.new_group({0, 1, 2});
    constexpr int kLarge = 3000000;
    if (world.rank() == 0) {
      std::vector<Tensors> kept;
      for (const int peer : {1, 2}) {
        kept.push_back({at::full({kLarge}, peer)});
        group.backend()->send(kept.back(), peer, 3)->wait();
      }
      group.destroy();
    } else {
      Tensors tensors{at::zeros({kLarge}, at::kLong)};
      group.backend()->recv(tensors, 0, 3)->wait();
      EXPECT_EQ(tensors[0].sum().item<std::int64_t>(), std::int64_t{kLarge} * world.rank());
    }
    world.barrier();
  });
}

}  // namespace
}  // namespace lockstep::comm
