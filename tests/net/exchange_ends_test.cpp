#include "lockstep/net/exchange.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <list>
#include <thread>

#include "lockstep/base/fd.h"
#include "tests/net/mailboxes.h"
#include "tests/net/raw_rank.h"

namespace lockstep::net {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ExchangeEnds, WhatWasSentArrivesAlthoughTheSenderHasLeft) {
  for (const std::size_t count : kCounts) {
    for (const bool is_awaited : {true, false}) {
      Mailboxes group(2);
      send(group[1], 0, 9, {1});  // Unread by rank 0, which then leaves.
      std::list<Receive> receives;
      for (int i = 0; i < 5; ++i) {
        receives.emplace_back(group[1], 0, 0, count);
        const auto sent = send(group[0], 1, 0, numbers(count, i));
        if (is_awaited) {
          EXPECT_TRUE(group[0].wait_until(*sent, soon()));
          EXPECT_EQ(sent->error(), nullptr);
        }
      }
      group.boxes[0].reset();
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(receives.front().wait(), numbers(count, i)) << count;
        receives.pop_front();
      }
      EXPECT_THAT([&] { Receive(group[1], 0, 0).wait(); },
                  ThrowsMessage<RankGone>(HasSubstr("rank 0 has left the group")));
    }
  }
}

// Both have connected at the same moment, and both send.
TEST(ExchangeEnds, LargeMessagesOfBothArriveAlthoughBothLeave) {
  for (int round = 0; round < 5; ++round) {
    Mailboxes group(2);
    constexpr std::size_t kLarge = 300000;
    std::vector<std::thread> threads;
    for (const int rank : {0, 1}) {
      threads.emplace_back([&group, rank] {
        Receive receive(group[rank], 1 - rank, 0, kLarge);
        const auto sent = send(group[rank], 1 - rank, 0, numbers(kLarge, rank));
        EXPECT_EQ(receive.wait(), numbers(kLarge, 1 - rank));
        EXPECT_TRUE(group[rank].wait_until(*sent, soon()));
        EXPECT_EQ(sent->error(), nullptr);
        group.boxes[static_cast<std::size_t>(rank)].reset();
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
  }
}

TEST(ExchangeEnds, ALargeMessageThatNobodyTakesKeepsNobodyFromLeaving) {
  Mailboxes group(2);
  const auto sent = send(group[0], 1, 0, numbers(100000, 0));
  send(group[0], 1, 1, {4});
  EXPECT_EQ(Receive(group[1], 0, 1).wait(), Ints{4});
  const auto begin = std::chrono::steady_clock::now();
  group.boxes[0].reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_THAT([&] { std::rethrow_exception(sent->error()); },
              ThrowsMessage<PeerError>(HasSubstr("rank 0 has left the group")));
  EXPECT_THAT([&] { Receive(group[1], 0, 0, 100000).wait(); },
              ThrowsMessage<RankGone>(HasSubstr("rank 0 has left the group")));
}

TEST(ExchangeEnds, WhoWaitsForAnyoneMindsADeathAndNotThatSomebodyLeft) {
  Mailboxes group(3);
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

// It has taken what another offered, which then does not come.
TEST(ExchangeEnds, WhoWaitsForAnyoneAndTookAnOfferMindsADeathAndNotThatItsRankLeft) {
  constexpr std::size_t kCount = 10000;
  for (const Kind last : {Kind::kBye, Kind::kOffer, Kind::kWithdrawn}) {
    RawRanks group(3);
    RawRank first(group.box, 1);
    RawRank second(group.box, 2);
    Receive receive(group.box, kAnySource, 7, kCount);
    first.write({.kind = Kind::kOffer, .tag = 7, .bytes = 4 * kCount, .id = 5});
    ASSERT_EQ(first.read().kind, Kind::kTake);
    if (last == Kind::kWithdrawn) {  // The other dies before that.
      second.close();
      EXPECT_THAT([&] { Receive(group.box, 2, 8).wait(); },
                  ThrowsMessage<RankGone>(HasSubstr("rank 2 is gone")));
      first.write({.kind = last, .id = 5});
      EXPECT_THAT([&] { receive.wait(); }, ThrowsMessage<RankGone>(HasSubstr("rank 2 is gone")));
      continue;
    }
    first.write({.kind = last, .tag = 9, .bytes = 4 * kCount, .id = 6});
    first.close();
    if (last == Kind::kOffer) {  // It dies.
      EXPECT_THAT([&] { receive.wait(); }, ThrowsMessage<RankGone>(HasSubstr("rank 1 is gone")));
      continue;
    }
    EXPECT_THAT([&] { Receive(group.box, 1, 8).wait(); },
                ThrowsMessage<RankGone>(HasSubstr("rank 1 has left")));
    EXPECT_FALSE(receive.message->is_done());
    second.write({.kind = Kind::kOffer, .tag = 7, .bytes = 4 * kCount, .id = 5});
    ASSERT_EQ(second.read().kind, Kind::kTake);
    const Ints values = numbers(kCount, 3);
    second.write({.kind = Kind::kPayload, .bytes = 4 * kCount, .id = 5});
    second.write(values.data(), 4 * kCount);
    EXPECT_EQ(receive.wait(), values);
    EXPECT_EQ(receive.message->from(), 2);
  }
}

// It has left before it was ever connected with.
TEST(ExchangeEnds, WhoWaitsForAnyoneDoesNotMindWhoLeftBefore) {
  Mailboxes group(3);
  group.boxes[2].reset();
  Receive receive(group[0], kAnySource, 0);
  EXPECT_THAT([&] { Receive(group[0], 2, 0).wait(); },
              ThrowsMessage<RankGone>(HasSubstr("rank 2 is gone")));
  send(group[1], 0, 0, {4});
  EXPECT_EQ(receive.wait(), Ints{4});
}

// A rank in another process, which is killed while it is being connected with or before.
TEST(ExchangeEnds, ARankThatIsKilledIsNamed) {
  for (const bool before : {true, false}) {
    const Pipe to_parent = make_pipe();
    const Pipe to_child = make_pipe();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Mailbox box(1, "127.0.0.1");
      write_all(to_parent.write_end.get(), box.own_address() + "\n");
      char text[100] = {};
      (void)!::read(to_child.read_end.get(), text, sizeof text);
      box.open({text, box.own_address()});
      if (!before) {
        Receive(box, 0, 3).wait();
      }
      ::raise(SIGKILL);
    }
    char text[100] = {};
    ASSERT_GT(::read(to_parent.read_end.get(), text, sizeof text - 1), 0);
    std::string address = text;
    address.pop_back();
    Mailbox box(0, "127.0.0.1");
    write_all(to_child.write_end.get(), box.own_address());
    box.open({box.own_address(), address});
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
