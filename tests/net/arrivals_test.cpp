#include "lockstep/net/arrivals.h"

#include <gmock/gmock.h>

namespace lockstep::net {
namespace {

using Kind = Frame::Kind;

Arrival message(int from, std::uint64_t tag, std::size_t bytes) {
  return {
      from, {.kind = Kind::kMessage, .tag = tag, .bytes = bytes}, std::vector<std::byte>(bytes)};
}

TEST(Arrivals, AreTakenInTheOrderInWhichTheyCame) {
  Arrivals arrivals;
  arrivals.add(message(1, 7, 10));
  arrivals.add(message(2, 7, 20));
  arrivals.add(message(2, 7, 30));
  EXPECT_FALSE(arrivals.take(1, 8)) << "another tag";
  EXPECT_FALSE(arrivals.take(3, 7)) << "another source";
  EXPECT_EQ(arrivals.take(2, 7)->bytes.size(), 20U);
  EXPECT_EQ(arrivals.take(kAnySource, 7)->from, 1);
  EXPECT_EQ(arrivals.take(kAnySource, 7)->bytes.size(), 30U);
  EXPECT_FALSE(arrivals.take(kAnySource, 7));
}

TEST(Arrivals, KnowTheMemoryThatEachSourceTakes) {
  Arrivals arrivals;
  EXPECT_EQ(arrivals.bytes_from(1), 0U);
  arrivals.add(message(1, 7, 1000));
  arrivals.add(message(1, 7, 0));
  arrivals.add({1, {.kind = Kind::kOffer, .tag = 7, .bytes = 1000000}});
  EXPECT_GT(arrivals.bytes_from(1), 1000U) << "an empty one takes some, too";
  EXPECT_LT(arrivals.bytes_from(1), 2000U) << "what is offered is not here";
  EXPECT_EQ(arrivals.bytes_from(2), 0U);
  arrivals.take(1, 7);
  EXPECT_GT(arrivals.bytes_from(1), 0U);
  EXPECT_LT(arrivals.bytes_from(1), 1000U);
  arrivals.take(1, 7);
  arrivals.drop_offers(1);
  EXPECT_EQ(arrivals.bytes_from(1), 0U);
}

TEST(Arrivals, OffersOfARankThatIsGoneAreDroppedAndMessagesKept) {
  Arrivals arrivals;
  arrivals.add({1, {.kind = Kind::kOffer, .tag = 7, .bytes = 5}});
  arrivals.add(message(1, 7, 6));
  arrivals.add({2, {.kind = Kind::kOffer, .tag = 7, .bytes = 8}});
  arrivals.drop_offers(1);
  EXPECT_EQ(arrivals.take(kAnySource, 7)->frame.bytes, 6U);
  EXPECT_EQ(arrivals.take(kAnySource, 7)->frame.bytes, 8U);
}

Arrival coming(int from, std::uint64_t id) {
  return {from, {.kind = Kind::kOffer, .tag = 7, .bytes = 100, .id = id}, {}, true};
}

TEST(Arrivals, WhatIsComingIsBeforeWhatItsRankSentLater) {
  Arrivals arrivals;
  arrivals.add({1, {.kind = Kind::kOffer, .tag = 7, .bytes = 5, .id = 4}});
  arrivals.add({2, {.kind = Kind::kOffer, .tag = 7, .bytes = 5, .id = 1}});
  arrivals.add(coming(1, 2));
  arrivals.add(coming(1, 3));
  arrivals.add(coming(1, 1));
  for (const std::uint64_t id : {1, 2, 3, 4}) {
    EXPECT_EQ(arrivals.take(1, 7)->frame.id, id);
  }
}

TEST(Arrivals, WhatWasComingIsAMessageWhenItIsHere) {
  Arrivals arrivals;
  arrivals.add(coming(1, 2));
  arrivals.add(coming(1, 3));
  EXPECT_LT(arrivals.bytes_from(1), 300U);
  arrivals.complete(1, 2, std::vector<std::byte>(1000));
  arrivals.complete(1, 9, std::vector<std::byte>(1000));
  EXPECT_GT(arrivals.bytes_from(1), 1000U);
  EXPECT_LT(arrivals.bytes_from(1), 1500U) << "one that nobody waits for is dropped";
  arrivals.drop_offer(1, 2);
  arrivals.drop_offer(1, 3);
  const auto message = arrivals.take(1, 7);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->frame.kind, Kind::kMessage);
  EXPECT_EQ(message->bytes.size(), 1000U);
  EXPECT_EQ(arrivals.bytes_from(1), 0U);
}

}  // namespace
}  // namespace lockstep::net
