#include "lockstep/net/exchange.h"

#include <gmock/gmock.h>

namespace lockstep::net {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Card, SaysWhereARankListens) {
  const Card card{.endpoint = {"::1", 5}, .token = 4294967295U};
  const Card read = Card::from_text(card.to_text());
  EXPECT_EQ(read.endpoint.host, "::1");
  EXPECT_EQ(read.endpoint.port, 5);
  EXPECT_EQ(read.token, 4294967295U);
}

TEST(Card, TextThatIsNoneIsAPeersError) {
  EXPECT_THAT([] { Card::from_text("10.0.0.1:7"); },
              ThrowsMessage<PeerError>(HasSubstr("expected ADDRESS:PORT TOKEN")));
}

struct Side {
  Side(int rank, const std::vector<Card>& cards)
      : exchange(rank, cards, [this](const MessagePointer&, const Failure& failure) {
          ++finished;
          failed = failed || failure.kind != Failure::Kind::kNone;
        }) {}
  int finished = 0;
  bool failed = false;
  Exchange exchange;
};

// Whoever knocks says first who it is, with the token of the one it wants.
TEST(Exchange, AStrangerIsSentAwayAndHarmsNobody) {
  const Listener listener = listen_on({"127.0.0.1", 0});
  const Card own{.endpoint = {"127.0.0.1", listener.port}, .token = 7};
  Side side(0, {own, own});
  for (const Frame& frame :
       {Frame{.kind = Frame::Kind::kHello, .tag = 8, .id = 1},     // Another token.
        Frame{.kind = Frame::Kind::kHello, .tag = 7, .id = 2},     // There is no such rank.
        Frame{.kind = Frame::Kind::kHello, .tag = 7, .id = 0},     // It is this one.
        Frame{.kind = Frame::Kind::kOffer, .tag = 1, .bytes = 9},  // Without a greeting.
        Frame{.magic = 1, .kind = Frame::Kind::kHello, .tag = 7, .id = 1}}) {
    Link stranger(own.endpoint);
    stranger.push(frame);
    side.exchange.adopt(UniqueFd(accept_on(listener).fd.release()));
    while (stranger.has_unsent()) {
      stranger.write();
    }
    while (!side.exchange.links().empty()) {
      side.exchange.links().front().read(side.exchange.receiver());
      side.exchange.drop_closed();
    }
  }
  EXPECT_EQ(side.finished, 0);
}

}  // namespace
}  // namespace lockstep::net
