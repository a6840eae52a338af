#include <gmock/gmock.h>

#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

TEST(ByteStrings, TravelWithZerosAndWithoutContent) {
  testing::run_ranks(2, [](Group& world) {
    const std::string mine = world.rank() == 0 ? std::string("a\0b", 3) : "";
    EXPECT_EQ(world.broadcast_bytes(mine), std::string("a\0b", 3));
    EXPECT_EQ(world.broadcast_bytes(mine, 1), "");
    EXPECT_THAT(world.all_gather_bytes(mine), ElementsAre(std::string("a\0b", 3), ""));
  });
}

}  // namespace
}  // namespace lockstep
