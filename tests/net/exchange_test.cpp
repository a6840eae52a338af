#include "lockstep/net/exchange.h"

#include <future>
#include <list>
#include <thread>

#include "tests/net/mailboxes.h"

namespace lockstep::net {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Exchange, SmallAndLargeMessagesArriveWhoeverIsFirst) {
  for (const std::size_t count : {0U, 1U, 4096U, 4097U, 1000000U}) {
    for (const bool receives_first : {true, false}) {
      Mailboxes group(2);
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

// In every order, from both sides at once, when nobody is connected yet.
TEST(Exchange, ManyMessagesRightAwayKeepTheirOrder) {
  constexpr int kRanks = 4;
  constexpr int kMany = 200;
  for (int round = 0; round < 5; ++round) {
    Mailboxes group(kRanks);
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

TEST(Exchange, TagsAreKeptApartAndAnyoneMayBeAwaited) {
  Mailboxes group(3);
  send(group[1], 0, 1, {11});
  send(group[2], 0, 2, {22});
  Receive second(group[0], kAnySource, 2);
  EXPECT_EQ(second.wait(), Ints{22});
  EXPECT_EQ(second.message->from(), 2);
  EXPECT_EQ(Receive(group[0], kAnySource, 1).wait(), Ints{11});
}

TEST(Exchange, AMessageOfAnotherSizeIsAnErrorOfTheReceiver) {
  for (const std::size_t count : {2U, 100000U}) {
    Mailboxes group(2);
    const auto sent = send(group[0], 1, 0, Ints(count));
    EXPECT_THAT([&] { Receive(group[1], 0, 0).wait(); },
                ThrowsMessage<UsageError>(HasSubstr("rank 0 sent " + std::to_string(4 * count))));
    EXPECT_TRUE(group[0].wait_until(*sent, soon()));
    send(group[0], 1, 0, {5});
    EXPECT_EQ(Receive(group[1], 0, 0).wait(), Ints{5}) << "the next one comes";
  }
}

// Rank 0 does not wait any longer; rank 1 knows only of the offer.
TEST(Exchange, AReceiveThatTookAnOfferWhichIsGoneGetsTheNextMessage) {
  Mailboxes group(2);
  const auto late = send(group[0], 1, 7, numbers(100000, 1));
  std::promise<void> told;
  group[0].when_done(late, Deadline::in(std::chrono::milliseconds(200)), [&] { told.set_value(); });
  ASSERT_EQ(told.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_THAT([&] { std::rethrow_exception(late->error()); },
              ThrowsMessage<PeerError>(HasSubstr(
                  "rank 1 has not taken the message of 400000 bytes with tag 7 within 200 ms")));
  Receive first(group[1], 0, 7, 100000);
  send(group[0], 1, 7, numbers(100000, 2));
  EXPECT_EQ(first.wait(), numbers(100000, 2));
  Receive second(group[1], 0, 7, 100000);
  send(group[0], 1, 7, numbers(100000, 3));
  EXPECT_EQ(second.wait(), numbers(100000, 3));
}

// Small messages of a rank to the other that nobody asks for, and none of which was received yet.
struct Flood {
  static constexpr std::size_t kCount = 4096;  // A message of 16 KiB.
  explicit Flood(Mailboxes& group, int from = 0) {
    for (int i = 0; i < 6 * 1024; ++i) {  // 96 MiB; beside 64 of them the kernel holds some.
      Ints values(kCount);
      values[0] = i;
      sent.push_back(send(group[from], 1 - from, 1, std::move(values)));
    }
  }
  std::vector<MessagePointer> sent;
};

TEST(Exchange, MessagesThatNobodyAsksForWaitAtTheSender) {
  Mailboxes group(2);
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
TEST(Exchange, MessagesThatNobodyAsksForKeepNoOtherFromComing) {
  Mailboxes group(2);
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

// Each waits for its sends before its first receive.
TEST(Exchange, TwoRanksThatOnlySendDoNotWaitForEachOther) {
  Mailboxes group(2);
  const std::vector<Flood> floods{Flood(group, 0), Flood(group, 1)};
  std::vector<std::thread> threads;
  for (const int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      const auto& sent = floods[static_cast<std::size_t>(rank)].sent;
      ASSERT_TRUE(group[rank].wait_until(*sent.back(), soon()));
      for (std::size_t i = 0; i < sent.size(); ++i) {
        ASSERT_EQ(Receive(group[rank], 1 - rank, 1, Flood::kCount).wait()[0], static_cast<int>(i));
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

TEST(Exchange, LeavingIsPromptAlthoughMessagesWait) {
  for (const int who : {0, 1}) {
    Mailboxes group(2);
    const Flood flood(group);
    EXPECT_FALSE(group[0].wait_until(*flood.sent.back(), Deadline::in(std::chrono::seconds(1))));
    const auto begin = std::chrono::steady_clock::now();
    group.boxes[static_cast<std::size_t>(who)].reset();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    if (who == 0) {
      EXPECT_THAT([&] { Receive(group[1], 0, 2).wait(); },
                  ThrowsMessage<RankGone>(HasSubstr("rank 0 has left the group")));
      EXPECT_NE(flood.sent.back()->error(), nullptr) << "it was never sent";
      for (std::size_t i = 0; flood.sent[i]->error() == nullptr; ++i) {
        ASSERT_EQ(Receive(group[1], 0, 1, Flood::kCount).wait()[0], static_cast<int>(i));
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::net
