#include "lockstep/net/rank_address.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::net {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(RankAddress, SaysWhereARankListens) {
  const RankAddress address{.endpoint = {"::1", 5}, .token = 18446744073709551615U};
  const RankAddress read = RankAddress::from_text(address.to_text());
  EXPECT_EQ(read.endpoint.host, "::1");
  EXPECT_EQ(read.endpoint.port, 5);
  EXPECT_EQ(read.token, 18446744073709551615U);
}

TEST(RankAddress, TextThatIsNoneIsAPeersError) {
  for (const char* text : {"", "10.0.0.1:7", "10.0.0.1 7", "10.0.0.1:0 7", "10.0.0.1:x 7",
                           "10.0.0.1:7 -1", "10.0.0.1:7 7x", "10.0.0.1:7 7 7"}) {
    EXPECT_THAT([&] { RankAddress::from_text(text); },
                ThrowsMessage<PeerError>(HasSubstr("expected ADDRESS:PORT TOKEN")))
        << text;
  }
}

TEST(RandomToken, HasAllBitsAndDiffers) {
  std::uint64_t ones = 0;
  std::uint64_t zeros = 0;
  for (int i = 0; i < 200; ++i) {
    const auto token = random_token();
    ones |= token;
    zeros |= ~token;
  }
  EXPECT_EQ(ones, ~std::uint64_t{0});
  EXPECT_EQ(zeros, ~std::uint64_t{0});
}

}  // namespace
}  // namespace lockstep::net
