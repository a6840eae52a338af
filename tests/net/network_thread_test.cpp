#include "lockstep/net/network_thread.h"

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "tests/net/mailboxes.h"

namespace lockstep::net {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(NetworkThread, ClosingEndsTheWaitsOnBothSides) {
  Mailboxes group(2);
  Receive there(group[1], 0, 0);
  Receive here(group[0], 1, 0);
  group[0].close("the reason", Close::kAtOnce);
  EXPECT_THAT([&] { here.wait(); }, ThrowsMessage<PeerError>(HasSubstr("the reason")));
  EXPECT_THAT([&] { there.wait(); }, ThrowsMessage<RankGone>(HasSubstr("rank 0")));
  EXPECT_THAT([&] { Receive(group[0], 1, 0).wait(); },
              ThrowsMessage<PeerError>(HasSubstr("the reason")));
}

TEST(NetworkThread, ACloseAtOnceCutsAPoliteOneShort) {
  Mailboxes group(2);
  send(group[0], 1, 0, numbers(100000, 0));  // Nobody takes it.
  send(group[0], 1, 1, {4});
  EXPECT_EQ(Receive(group[1], 0, 1).wait(), Ints{4});
  const auto begin = std::chrono::steady_clock::now();
  group[0].close("politely", Close::kPolitely);
  group[0].close("at once", Close::kAtOnce);
  group.boxes[0].reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(800));
}

TEST(NetworkThread, WhatIsPostedAfterItsEndFails) {
  Mailboxes group(2);
  group[0].stop();
  EXPECT_THAT([&] { Receive(group[0], 1, 0).wait(); },
              ThrowsMessage<PeerError>(HasSubstr("rank 0 has left the group")));
  bool told = false;
  group[0].when_done(Receive(group[0], 1, 0).message, soon(), [&] { told = true; });
  EXPECT_TRUE(told);
  group[0].close("again", Close::kAtOnce);
}

TEST(NetworkThread, MayBeStoppedByManyThreads) {
  for (int round = 0; round < 20; ++round) {
    Mailboxes group(2);
    Receive receive(group[0], 1, 0);
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (++ready; ready < 4;) {
          std::this_thread::yield();
        }
        group[0].stop();
        EXPECT_TRUE(receive.message->is_done());
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
  }
}

TEST(NetworkThread, TellsWhenItIsDoneInAnyOrder) {
  Mailboxes group(2);
  Receive first(group[0], 1, 1);
  Receive second(group[0], 1, 2);
  std::promise<void> told;
  group[0].when_done(first.message, soon(), [] {});
  group[0].when_done(second.message, soon(), [&] { told.set_value(); });
  send(group[1], 0, 2, {1});
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_FALSE(first.message->is_done());
  std::promise<void> again;
  group[0].when_done(second.message, soon(), [&] { again.set_value(); });
  EXPECT_EQ(again.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

std::size_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

// So that it is the caller's error if there is none to be had.
TEST(NetworkThread, WhoWantsToBeToldStartsTheThreadForThat) {
  Mailboxes group(2);
  Receive receive(group[0], 1, 1);
  const auto before = threads_of_this_process();
  group[0].when_done(receive.message, soon(), [] {});
  EXPECT_EQ(threads_of_this_process(), before + 1);
}

TEST(NetworkThread, TellsAtTheDeadlineThatNothingCame) {
  Mailboxes group(2);
  Receive receive(group[0], 1, 1);
  std::promise<void> told;
  group[0].when_done(receive.message, Deadline::in(std::chrono::milliseconds(30)),
                     [&] { told.set_value(); });
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_THAT(
      [&] { receive.wait(); },
      ThrowsMessage<PeerError>(HasSubstr("rank 1 has sent no message with tag 1 within 30 ms")));
  send(group[1], 0, 1, {6});
  EXPECT_EQ(Receive(group[0], 1, 1).wait(), Ints{6}) << "it was left to the next";
}

TEST(NetworkThread, ItsEndIsToldToWhoWaitsAndIsPrompt) {
  Mailboxes group(2);
  Receive receive(group[0], 1, 1);
  bool told = false;
  group[0].when_done(receive.message, soon(), [&] { told = true; });
  const auto begin = std::chrono::steady_clock::now();
  group.boxes[0].reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_TRUE(told);
  EXPECT_THAT([&] { std::rethrow_exception(receive.message->error()); },
              ThrowsMessage<PeerError>(HasSubstr("rank 0 has left the group")));
}

}  // namespace
}  // namespace lockstep::net
