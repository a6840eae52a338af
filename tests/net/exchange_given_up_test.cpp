// What becomes of a large message whose receive was given up: it is for the next.
#include <gmock/gmock.h>

#include <future>

#include "lockstep/net/exchange.h"
#include "tests/net/raw_rank.h"

namespace lockstep::net {
namespace {

constexpr std::size_t kLarge = 10000;
constexpr std::size_t kHalf = kLarge / 2;

// A large message from a raw rank, in steps that a test chooses.
struct LargeMessage {
  LargeMessage(RawRank& the_raw, std::uint64_t the_id, int first)
      : raw(the_raw), id(the_id), values(numbers(kLarge, first)) {}
  void offer() { raw.write({.kind = Kind::kOffer, .tag = 7, .bytes = 4 * kLarge, .id = id}); }
  void begin() {
    raw.write({.kind = Kind::kPayload, .bytes = 4 * kLarge, .id = id});
    raw.write(values.data(), 4 * kHalf);
  }
  void end() { raw.write(values.data() + kHalf, 4 * (kLarge - kHalf)); }

  RawRank& raw;
  std::uint64_t id;
  Ints values;
};

// A receive that has taken the first of two messages.
class ReceiveGivenUp : public ::testing::Test {
 protected:
  void SetUp() override {
    first.offer();
    ASSERT_EQ(raw.read().kind, Kind::kTake);
  }
  // After a while, in which what was written is read.
  void give_up() {
    std::promise<void> told;
    group.box.when_done(receive.message, Deadline::in(std::chrono::milliseconds(100)),
                        [&] { told.set_value(); });
    ASSERT_EQ(told.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
    EXPECT_THROW(receive.wait(), PeerError);
  }
  // Returns when all that the raw rank wrote was read.
  void let_it_read() {
    raw.write({.kind = Kind::kAsk, .id = 99});
    EXPECT_EQ(raw.read().kind, Kind::kTold);
  }

  RawRanks group{2};
  RawRank raw{group.box, 1};
  Receive receive{group.box, 1, 7, kLarge};
  LargeMessage first{raw, 1, 1000};
  LargeMessage second{raw, 2, 2000};
};

// The second one would be written where the first one's bytes go.
TEST_F(ReceiveGivenUp, AnOfferWithAnOldNumberEndsTheConnection) {
  raw.write({.kind = Kind::kOffer, .tag = 8, .bytes = 100 * kLarge, .id = first.id});
  EXPECT_THAT([&] { receive.wait(); },
              ::testing::ThrowsMessage<PeerError>(::testing::HasSubstr("the number 1 after 1")));
}

TEST_F(ReceiveGivenUp, AnOfferOfNothingEndsTheConnection) {
  raw.write({.kind = Kind::kOffer, .tag = 8, .bytes = 0, .id = second.id});
  EXPECT_THAT([&] { receive.wait(); },
              ::testing::ThrowsMessage<PeerError>(::testing::HasSubstr("a message of 0 bytes")));
}

TEST_F(ReceiveGivenUp, BeforeTheBytesComeTheyAreForTheNext) {
  give_up();
  Receive next(group.box, 1, 7, kLarge);
  first.begin();
  first.end();
  EXPECT_EQ(next.wait(), first.values);
}

TEST_F(ReceiveGivenUp, AmidTheBytesAllOfThemAreForTheNext) {
  first.begin();
  give_up();
  Receive next(group.box, 1, 7, kLarge);
  first.end();
  EXPECT_EQ(next.wait(), first.values);
}

TEST_F(ReceiveGivenUp, TheNextMayHaveBeenPostedBefore) {
  Receive next(group.box, kAnySource, 7, kLarge);
  first.begin();
  give_up();
  first.end();
  EXPECT_EQ(next.wait(), first.values);
  EXPECT_EQ(next.message->from(), 1);
}

TEST_F(ReceiveGivenUp, TheNextMayComeLongAfter) {
  first.begin();
  give_up();
  first.end();
  let_it_read();
  EXPECT_EQ(Receive(group.box, 1, 7, kLarge).wait(), first.values);
}

TEST_F(ReceiveGivenUp, TheNextMayBeGivenUpAsWell) {
  first.begin();
  give_up();
  Receive next(group.box, 1, 7, kLarge);
  group.box.give_up(next.message, "its time is over, too");
  EXPECT_THROW(next.wait(), PeerError);
  first.end();
  EXPECT_EQ(Receive(group.box, 1, 7, kLarge).wait(), first.values);
}

TEST_F(ReceiveGivenUp, MessagesKeepTheirOrder) {
  Receive of_second(group.box, 1, 7, kLarge);
  second.offer();
  ASSERT_EQ(raw.read().kind, Kind::kTake);
  const Ints third{5};
  raw.write({.kind = Kind::kMessage, .tag = 7, .bytes = 4, .id = 3});
  raw.write(third.data(), 4);
  first.begin();
  give_up();
  group.box.give_up(of_second.message, "its time is over, too");
  first.end();
  second.begin();
  second.end();
  let_it_read();
  EXPECT_EQ(Receive(group.box, 1, 7, kLarge).wait(), first.values);
  EXPECT_EQ(Receive(group.box, 1, 7, kLarge).wait(), second.values);
  EXPECT_EQ(Receive(group.box, 1, 7).wait(), third);
}

TEST_F(ReceiveGivenUp, ANextOfAnotherSizeFailsAndTheMessageAfterThatComes) {
  first.begin();
  give_up();
  EXPECT_THROW(Receive(group.box, 1, 7, 3).wait(), UsageError);
  first.end();
  second.offer();
  Receive next(group.box, 1, 7, kLarge);
  ASSERT_EQ(raw.read().kind, Kind::kTake);
  second.begin();
  second.end();
  EXPECT_EQ(next.wait(), second.values);
}

TEST_F(ReceiveGivenUp, AMessageThatItsSenderGivesUpTooIsForNobody) {
  give_up();
  raw.write({.kind = Kind::kWithdrawn, .id = first.id});
  let_it_read();
  Receive next(group.box, 1, 7, kLarge);
  second.offer();
  ASSERT_EQ(raw.read().kind, Kind::kTake);
  second.begin();
  second.end();
  EXPECT_EQ(next.wait(), second.values);
}

TEST_F(ReceiveGivenUp, ASenderThatEndsMeanwhileIsNamedByTheNext) {
  first.begin();
  give_up();
  Receive next(group.box, 1, 7, kLarge);
  raw.close();
  EXPECT_THROW(next.wait(), RankGone);
  EXPECT_THROW(Receive(group.box, 1, 7, kLarge).wait(), RankGone);
}

}  // namespace
}  // namespace lockstep::net
