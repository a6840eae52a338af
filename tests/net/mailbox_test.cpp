#include "lockstep/net/mailbox.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <future>
#include <list>
#include <numeric>

#include "lockstep/base/fd.h"

namespace lockstep::net {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Ints = std::vector<std::int32_t>;

Deadline soon() { return Deadline::in(std::chrono::seconds(30)); }

// All ranks of a group in this process.
struct Group {
  explicit Group(int size) {
    std::vector<std::string> cards;
    for (int rank = 0; rank < size; ++rank) {
      boxes.push_back(std::make_unique<Mailbox>(rank, "127.0.0.1"));
      cards.push_back(boxes.back()->card());
    }
    for (auto& box : boxes) {
      box->open(cards);
    }
  }
  Mailbox& operator[](int rank) { return *boxes[static_cast<std::size_t>(rank)]; }
  std::vector<std::unique_ptr<Mailbox>> boxes;
};

MessagePointer send(Mailbox& box, int to, std::uint64_t tag, Ints values) {
  const auto owner = std::make_shared<Ints>(std::move(values));
  return box.send(to, tag, std::as_bytes(std::span(*owner)), owner);
}

struct Receive {
  Receive(Mailbox& the_box, int from, std::uint64_t tag, std::size_t count = 1)
      : box(the_box),
        values(std::make_shared<Ints>(count)),
        message(box.receive(from, tag, std::as_writable_bytes(std::span(*values)), values)) {}
  Ints wait() {
    if (!box.wait_until(*message, soon())) {
      throw PeerError("it hangs");
    }
    if (message->error()) {
      std::rethrow_exception(message->error());
    }
    return *values;
  }
  Mailbox& box;
  std::shared_ptr<Ints> values;
  MessagePointer message;
};

Ints numbers(std::size_t count, int first) {
  Ints values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(Mailbox, SmallAndLargeMessagesArriveWhoeverIsFirst) {
  for (const std::size_t count : {0U, 1U, 4096U, 4097U, 1000000U}) {
    for (const bool receives_first : {true, false}) {
      Group group(2);
      const auto send_it = [&] { return send(group[0], 1, 7, numbers(count, 5)); };
      const auto early = receives_first ? nullptr : send_it();
      Receive receive(group[1], 0, 7, count);
      const auto late = receives_first ? send_it() : nullptr;
      EXPECT_EQ(receive.wait(), numbers(count, 5));
      EXPECT_EQ(receive.message->from(), 0);
      EXPECT_TRUE(group[0].wait_until(receives_first ? *late : *early, soon()));
    }
  }
}

TEST(Mailbox, OnlyRanksThatSpeakAreConnected) {
  Group group(4);
  Receive receive(group[1], 0, 0);
  send(group[0], 1, 0, {3});
  EXPECT_EQ(receive.wait(), Ints{3});
  EXPECT_EQ(group[2].connections() + group[3].connections(), 0U);
  EXPECT_GE(group[1].connections(), 1U);
  EXPECT_LE(group[1].connections(), 2U) << "two that connect at once have two";
}

// In every order, from both sides at once, when nobody is connected yet.
TEST(Mailbox, ManyMessagesRightAwayKeepTheirOrder) {
  constexpr int kRanks = 4;
  constexpr int kMany = 200;
  for (int round = 0; round < 5; ++round) {
    Group group(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&group, rank] {
        std::vector<MessagePointer> sent;
        std::list<Receive> receives;
        for (int i = 0; i < kMany; ++i) {
          for (int peer = 0; peer < kRanks; ++peer) {
            const std::size_t count = i % 10 == 0 ? 10000 : 3;
            sent.push_back(send(group[rank], peer, 1, numbers(count, 1000 * rank + i)));
            receives.emplace_back(group[rank], peer, 1, count);
          }
        }
        auto receive = receives.begin();
        for (int i = 0; i < kMany; ++i) {
          for (int peer = 0; peer < kRanks; ++peer) {
            EXPECT_EQ((receive++)->wait()[2], 1000 * peer + i + 2);
          }
        }
        for (const auto& message : sent) {
          EXPECT_TRUE(group[rank].wait_until(*message, soon()));
          EXPECT_EQ(message->error(), nullptr);
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
  }
}

TEST(Mailbox, TagsAreKeptApartAndAnyoneMayBeAwaited) {
  Group group(3);
  send(group[1], 0, 1, {11});
  send(group[2], 0, 2, {22});
  Receive second(group[0], kAnySource, 2);
  EXPECT_EQ(second.wait(), Ints{22});
  EXPECT_EQ(second.message->from(), 2);
  EXPECT_EQ(Receive(group[0], kAnySource, 1).wait(), Ints{11});
}

TEST(Mailbox, AMessageOfAnotherSizeIsAnErrorOfTheReceiver) {
  for (const std::size_t count : {2U, 100000U}) {
    Group group(2);
    const auto sent = send(group[0], 1, 0, Ints(count));
    EXPECT_THAT([&] { Receive(group[1], 0, 0).wait(); },
                ThrowsMessage<UsageError>(HasSubstr("rank 0 sent " + std::to_string(4 * count))));
    EXPECT_TRUE(group[0].wait_until(*sent, soon()));
    send(group[0], 1, 0, {5});
    EXPECT_EQ(Receive(group[1], 0, 0).wait(), Ints{5}) << "the next one comes";
  }
}

TEST(Mailbox, WhatWasSentArrivesAlthoughTheSenderHasLeft) {
  for (int round = 0; round < 20; ++round) {
    Group group(2);
    send(group[1], 0, 9, {1});  // Unread by rank 0, which then leaves.
    for (int i = 0; i < 100; ++i) {
      send(group[0], 1, 0, {i});
    }
    group.boxes[0].reset();
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(Receive(group[1], 0, 0).wait(), Ints{i});
    }
    EXPECT_THAT([&] { Receive(group[1], 0, 0).wait(); },
                ThrowsMessage<RankGone>(HasSubstr("rank 0 has left the group")));
  }
}

TEST(Mailbox, WhoWaitsForAnyoneMindsADeathAndNotThatSomebodyLeft) {
  Group group(3);
  Receive receive(group[0], kAnySource, 0);
  send(group[1], 0, 5, {1});
  EXPECT_EQ(Receive(group[0], 1, 5).wait(), Ints{1});
  group.boxes[1].reset();
  send(group[2], 0, 0, {4});
  EXPECT_EQ(receive.wait(), Ints{4});
  Receive last(group[0], kAnySource, 0);
  group[2].close("it fails", Mailbox::Close::kAtOnce);
  EXPECT_THAT([&] { last.wait(); }, ThrowsMessage<RankGone>(HasSubstr("rank 2")));
}

// It has left before it was ever connected with.
TEST(Mailbox, WhoWaitsForAnyoneDoesNotMindWhoLeftBefore) {
  Group group(3);
  group.boxes[2].reset();
  Receive receive(group[0], kAnySource, 0);
  EXPECT_THAT([&] { Receive(group[0], 2, 0).wait(); },
              ThrowsMessage<RankGone>(HasSubstr("rank 2 is gone")));
  send(group[1], 0, 0, {4});
  EXPECT_EQ(receive.wait(), Ints{4});
}

TEST(Mailbox, ClosingEndsTheWaitsOnBothSides) {
  Group group(2);
  Receive there(group[1], 0, 0);
  Receive here(group[0], 1, 0);
  group[0].close("the reason", Mailbox::Close::kAtOnce);
  EXPECT_THAT([&] { here.wait(); }, ThrowsMessage<PeerError>(HasSubstr("the reason")));
  EXPECT_THAT([&] { there.wait(); }, ThrowsMessage<RankGone>(HasSubstr("rank 0")));
  EXPECT_THAT([&] { Receive(group[0], 1, 0).wait(); },
              ThrowsMessage<PeerError>(HasSubstr("the reason")));
}

TEST(Mailbox, TellsWhenItIsDoneInAnyOrder) {
  Group group(2);
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

TEST(Mailbox, TellsAtTheDeadlineThatNothingCame) {
  Group group(2);
  Receive receive(group[0], 1, 1);
  std::promise<void> told;
  group[0].when_done(receive.message, Deadline::in(std::chrono::milliseconds(30)),
                     [&] { told.set_value(); });
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_THAT([&] { receive.wait(); }, ThrowsMessage<PeerError>(HasSubstr("30 ms")));
  send(group[1], 0, 1, {6});
  EXPECT_EQ(Receive(group[0], 1, 1).wait(), Ints{6}) << "it was left to the next";
}

TEST(Mailbox, ItsEndIsToldToWhoWaitsAndIsPrompt) {
  Group group(2);
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

TEST(Mailbox, MayBeEndedByWhomItTells) {
  Group group(2);
  Receive first(group[0], 1, 1);
  Receive never(group[0], 1, 2);
  std::promise<void> told;
  std::promise<void> failed;
  group[0].when_done(never.message, soon(), [&] { failed.set_value(); });
  group[0].when_done(first.message, soon(), [&] {
    group.boxes[0].reset();
    told.set_value();
  });
  send(group[1], 0, 1, {1});
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(failed.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

TEST(Mailbox, WhomItTellsMayWaitForAnother) {
  Group group(2);
  Receive first(group[0], 1, 1);
  std::promise<Ints> got;
  group[0].when_done(first.message, soon(), [&] { got.set_value(Receive(group[0], 1, 2).wait()); });
  send(group[1], 0, 1, {1});
  ASSERT_TRUE(group[0].wait_until(*first.message, soon()));
  send(group[1], 0, 2, {2});
  EXPECT_EQ(got.get_future().get(), Ints{2});
}

// Small messages of rank 0 to rank 1 that nobody asks for, and none of which was received yet.
struct Flood {
  static constexpr std::size_t kCount = 4096;  // Of 16 KiB.
  explicit Flood(Group& group) {
    for (int i = 0; i < 6 * 1024; ++i) {  // 96 MiB; beside 64 of them the kernel holds some.
      Ints values(kCount);
      values[0] = i;
      sent.push_back(send(group[0], 1, 1, std::move(values)));
    }
  }
  std::vector<MessagePointer> sent;
};

TEST(Mailbox, MessagesThatNobodyAsksForWaitAtTheSender) {
  Group group(2);
  const Flood flood(group);
  EXPECT_FALSE(group[0].wait_until(*flood.sent.back(), Deadline::in(std::chrono::seconds(1))));
  const auto later = send(group[0], 1, 2, {5});
  const auto large = send(group[0], 1, 3, numbers(100000, 6));
  EXPECT_EQ(Receive(group[1], 0, 2).wait(), Ints{5}) << "a receive gets past them";
  EXPECT_EQ(Receive(group[1], 0, 3, 100000).wait(), numbers(100000, 6));
  for (std::size_t i = 0; i < flood.sent.size(); ++i) {
    ASSERT_EQ(Receive(group[1], 0, 1, Flood::kCount).wait()[0], static_cast<int>(i));
    ASSERT_TRUE(group[0].wait_until(*flood.sent[i], soon()));
    ASSERT_EQ(flood.sent[i]->error(), nullptr);
  }
}

// Each kind of wait that needs an answer of the rank whose messages nobody asks for.
TEST(Mailbox, MessagesThatNobodyAsksForKeepNoOtherFromComing) {
  Group group(2);
  Receive first(group[0], 1, 4, 1000000);
  const Flood flood(group);
  EXPECT_FALSE(group[0].wait_until(*flood.sent.back(), Deadline::in(std::chrono::seconds(1))));
  send(group[1], 0, 4, numbers(1000000, 8));
  EXPECT_EQ(first.wait(), numbers(1000000, 8)) << "rank 0 says that it takes it behind them";
  const auto of_anyone = Receive(group[1], kAnySource, 5);
  send(group[0], 1, 5, {3});
  EXPECT_TRUE(group[1].wait_until(*of_anyone.message, soon()));
  EXPECT_EQ(*of_anyone.values, Ints{3});
  group.boxes[0].reset();
  EXPECT_THAT([&] { Receive(group[1], 0, 6).wait(); },
              ThrowsMessage<RankGone>(HasSubstr("rank 0 has left the group")));
  EXPECT_EQ(Receive(group[1], 0, 1, Flood::kCount).wait()[0], 0) << "they are there";
}

TEST(Mailbox, LeavingIsPromptAlthoughMessagesWait) {
  for (const int who : {0, 1}) {
    Group group(2);
    const Flood flood(group);
    EXPECT_FALSE(group[0].wait_until(*flood.sent.back(), Deadline::in(std::chrono::seconds(1))));
    const auto begin = std::chrono::steady_clock::now();
    group.boxes[static_cast<std::size_t>(who)].reset();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  }
}

TEST(Mailbox, WhoConnectsWaitsWhereThereAreNoMoreDescriptors) {
  Mailbox here(0, "127.0.0.1");
  Mailbox there(1, "127.0.0.1");
  there.open({here.card(), there.card()});
  const auto sent = send(there, 0, 7, {4});
  ASSERT_TRUE(there.wait_until(*sent, soon()));  // It has connected; nobody has accepted it.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = UniqueFd(::dup(STDERR_FILENO)).get();
  ASSERT_GE(lowest_free, 0);
  const rlimit no_more{static_cast<rlim_t>(lowest_free), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &no_more), 0);
  here.open({here.card(), there.card()});
  const std::clock_t begin = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::clock_t used = std::clock() - begin;  // By all threads.
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(used, CLOCKS_PER_SEC / 10) << "it tries all the time";
  const auto deadline = soon();
  while (here.connections() == 0 && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(here.connections(), 1U);
  EXPECT_EQ(Receive(here, 1, 7).wait(), Ints{4});
}

// A rank in another process, which is killed while it is being connected with or before.
TEST(Mailbox, ARankThatIsKilledIsNamed) {
  for (const bool before : {true, false}) {
    const Pipe to_parent = make_pipe();
    const Pipe to_child = make_pipe();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Mailbox box(1, "127.0.0.1");
      write_all(to_parent.write_end.get(), box.card() + "\n");
      char text[100] = {};
      (void)!::read(to_child.read_end.get(), text, sizeof text);
      box.open({text, box.card()});
      if (!before) {
        Receive(box, 0, 3).wait();
      }
      ::raise(SIGKILL);
    }
    char text[100] = {};
    ASSERT_GT(::read(to_parent.read_end.get(), text, sizeof text - 1), 0);
    std::string card = text;
    card.pop_back();
    Mailbox box(0, "127.0.0.1");
    write_all(to_child.write_end.get(), box.card());
    box.open({box.card(), card});
    if (before) {
      ::waitpid(child, nullptr, 0);
    }
    Receive receive(box, 1, 0);
    send(box, 1, 3, {1});
    EXPECT_THAT([&] { receive.wait(); }, ThrowsMessage<RankGone>(HasSubstr("rank 1 is gone")));
    const auto late = send(box, 1, 3, {1});
    EXPECT_TRUE(box.wait_until(*late, soon()));
    EXPECT_NE(late->error(), nullptr);
    if (!before) {
      ::waitpid(child, nullptr, 0);
    }
  }
}

}  // namespace
}  // namespace lockstep::net
