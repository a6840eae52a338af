#include "lockstep/net/message.h"

#include <gmock/gmock.h>

namespace lockstep::net {
namespace {

using ::testing::Property;
using ::testing::Throws;

TEST(Failure, SaysWhetherARankLeftOrDied) {
  const auto thrown = [](Failure::Kind kind) {
    return [kind] {
      std::rethrow_exception(Failure{.kind = kind, .words = "w", .rank = 3}.as_exception());
    };
  };
  EXPECT_THAT(thrown(Failure::Kind::kLeft),
              Throws<RankGone>(Property(&RankGone::how, RankGone::How::kLeft)));
  EXPECT_THAT(thrown(Failure::Kind::kDied),
              Throws<RankGone>(Property(&RankGone::how, RankGone::How::kDied)));
  EXPECT_THAT(thrown(Failure::Kind::kDied), Throws<RankGone>(Property(&RankGone::rank, 3)));
  EXPECT_THROW(thrown(Failure::Kind::kClosed)(), PeerError);
  EXPECT_THROW(thrown(Failure::Kind::kLate)(), PeerError);
  EXPECT_THROW(thrown(Failure::Kind::kSize)(), UsageError);
  EXPECT_EQ(Failure().as_exception(), nullptr);
}

}  // namespace
}  // namespace lockstep::net
