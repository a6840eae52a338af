#include "lockstep/launch/command/stream_choice.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

TEST(StreamChoice, OneNumberIsForAllWorkers) {
  const auto choice = StreamChoice::parse("3", "--tee");
  EXPECT_EQ(choice.of(0), Streams::kBoth);
  EXPECT_EQ(choice.of(77), Streams::kBoth);
  EXPECT_TRUE(choice.any());
  EXPECT_FALSE(StreamChoice::parse("0", "--tee").any());
}

TEST(StreamChoice, AListIsByLocalRankAndLeavesTheOthersOut) {
  const auto choice = StreamChoice::parse("0:1,12:2,3:0", "--tee");
  EXPECT_EQ(choice.of(0), Streams::kOut);
  EXPECT_EQ(choice.of(12), Streams::kErr);
  EXPECT_EQ(choice.of(1), Streams::kNone);
  EXPECT_FALSE(StreamChoice::parse("3:0", "--tee").any());
}

TEST(StreamChoice, TheHighestRankIsThatOfTheList) {
  EXPECT_EQ(StreamChoice::parse("12:2,3:0", "--tee").highest_rank(), 12);
  EXPECT_EQ(StreamChoice::parse("3", "--tee").highest_rank(), -1);
}

TEST(StreamChoice, OtherTextIsRefusedWithTheFlagsName) {
  for (const char* text :
       {"", "4", "-1", "33", "0:4", "0:", ":1", "a:1", "0:1,", "0:1;1:1", "0 :1"}) {
    EXPECT_THAT([&] { StreamChoice::parse(text, "--tee"); },
                ::testing::ThrowsMessage<UsageError>(::testing::StartsWith("--tee is '")))
        << text;
  }
}

}  // namespace
}  // namespace lockstep::launch
