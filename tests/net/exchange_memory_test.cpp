// The memory of a failed message is neither read nor written any more.
#include <future>

#include "lockstep/net/exchange.h"
#include "tests/net/raw_rank.h"

namespace lockstep::net {
namespace {

// Until it fails because this time is over.
void give_up(Mailbox& box, const MessagePointer& message, std::chrono::milliseconds after) {
  std::promise<void> told;
  box.when_done(message, Deadline::in(after), [&] { told.set_value(); });
  ASSERT_EQ(told.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  ASSERT_NE(message->error(), nullptr);
}

TEST(ExchangeMemory, AReceiveThatFailedIsNotWritten) {
  constexpr std::size_t kCount = 10000;
  const Ints ones(kCount, 1);
  for (const bool is_begun : {false, true}) {
    RawRanks group(2);
    RawRank raw(group.box, 1);
    Receive receive(group.box, 1, 7, kCount);
    raw.write({.kind = Kind::kOffer, .tag = 7, .bytes = 4 * kCount, .id = 5});
    ASSERT_EQ(raw.read().kind, Kind::kTake);
    const Frame payload{.kind = Kind::kPayload, .bytes = 4 * kCount, .id = 5};
    if (is_begun) {
      raw.write(payload);
      raw.write(ones.data(), 4);
    }
    give_up(group.box, receive.message, std::chrono::milliseconds(200));
    if (!is_begun) {
      raw.write(payload);
      raw.write(ones.data(), 4);
    }
    raw.write(ones.data() + 1, 4 * (kCount - 1));
    raw.write({.kind = Kind::kMessage, .tag = 8, .bytes = 4});
    raw.write(ones.data(), 4);
    EXPECT_EQ(Receive(group.box, 1, 8).wait(), Ints{1}) << "what comes behind it is read";
    EXPECT_EQ(receive.values->back(), 0) << is_begun;
    EXPECT_EQ(receive.values->at(1), 0) << is_begun;
    EXPECT_EQ(Receive(group.box, 1, 7, kCount).wait(), ones) << "it was left to the next";
  }
}

TEST(ExchangeMemory, AReceiveThatFailedBecauseItsRankLeavesIsNotWritten) {
  constexpr std::size_t kCount = 10000;
  const Ints ones(kCount, 1);
  RawRanks group(2);
  RawRank raw(group.box, 1);
  Receive receive(group.box, 1, 7, kCount);
  raw.write({.kind = Kind::kOffer, .tag = 7, .bytes = 4 * kCount, .id = 5});
  ASSERT_EQ(raw.read().kind, Kind::kTake);
  raw.write({.kind = Kind::kPayload, .bytes = 4 * kCount, .id = 5});
  raw.write(ones.data(), 4);
  group.box.close("it leaves", Close::kPolitely);
  ASSERT_TRUE(group.box.wait_until(*receive.message, soon()));
  raw.write(ones.data() + 1, 4 * (kCount - 1));
  EXPECT_EQ(raw.read().kind, Kind::kBye);
  raw.close();
  group.box.stop();
  EXPECT_EQ(receive.values->back(), 0);
}

// What the receiver gets, if it gets it, is what was to be sent.
TEST(ExchangeMemory, ASendThatFailedIsNotRead) {
  constexpr std::size_t kCount = std::size_t{4} << 20;  // The kernels do not take all of it.
  RawRanks group(2);
  RawRank raw(group.box, 1);
  const auto begun = std::make_shared<Ints>(numbers(kCount, 3));
  const auto behind = std::make_shared<Ints>(numbers(kCount, 4));
  const auto small = std::make_shared<Ints>(Ints{5});
  std::vector<MessagePointer> sent;
  for (const auto& values : {begun, behind, small}) {
    sent.push_back(group.box.send(1, 7, std::as_bytes(std::span(*values)), values));
  }
  const auto first = raw.read();
  const auto second = raw.read();
  ASSERT_EQ(raw.read().kind, Kind::kMessage);
  ASSERT_EQ(raw.read_ints(4), Ints{5});
  raw.write({.kind = Kind::kTake, .id = first.id});
  raw.write({.kind = Kind::kTake, .id = second.id});
  const auto payload = raw.read();
  ASSERT_EQ(payload.kind, Kind::kPayload);
  sent.push_back(group.box.send(1, 7, std::as_bytes(std::span(*small)), small));
  for (const std::size_t i : {0U, 1U, 3U}) {
    give_up(group.box, sent[i], std::chrono::milliseconds(100));
  }
  for (const auto& values : {begun, behind, small}) {
    std::fill(values->begin(), values->end(), 0);
  }
  send(group.box, 1, 7, {6});
  EXPECT_EQ(raw.read_ints(payload.bytes), numbers(kCount, 3));
  const auto withdrawn = raw.read();
  EXPECT_EQ(withdrawn.kind, Kind::kWithdrawn);
  EXPECT_EQ(withdrawn.id, second.id);
  EXPECT_EQ(raw.read().kind, Kind::kMessage);
  EXPECT_EQ(raw.read_ints(4), Ints{6}) << "not the one that was given up";
}

TEST(ExchangeMemory, AllMessagesAreDoneWhenCloseReturns) {
  for (int i = 0; i < 50; ++i) {
    Mailboxes group(2);
    const Receive receive(group[0], 1, 7);
    group[0].close("it fails", Close::kAtOnce);
    EXPECT_TRUE(receive.message->is_done());
  }
}

}  // namespace
}  // namespace lockstep::net
