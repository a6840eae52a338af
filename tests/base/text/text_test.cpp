#include "lockstep/base/text/text.h"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(ParseInt, TakesWholeDecimalNumbers) {
  EXPECT_THAT(parse_int("0"), Optional(0));
  EXPECT_THAT(parse_int("-12"), Optional(-12));
  EXPECT_THAT(parse_int("9223372036854775807"), Optional(INT64_MAX));
}

TEST(ParseInt, RefusesEverythingElse) {
  for (const char* text : {"", " 1", "1 ", "1x", "+1", "0x10", "1.0", "-", "9223372036854775808"}) {
    EXPECT_EQ(parse_int(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(Split, KeepsEmptyFields) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split(",", ','), ElementsAre("", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Join, UndoesSplit) {
  for (const char* text : {"", "a", ",a", "a,", ",,", "a,,b"}) {
    EXPECT_EQ(join(split(text, ','), ","), text);
  }
  EXPECT_EQ(join({}, ","), "");
}

TEST(Trim, TakesSpaceFromBothEndsOnly) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim("a"), "a");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Counted, NamesOneAndMany) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(2, "class"), "2 classes");
}

TEST(JoinNumbers, ListsRanks) {
  EXPECT_EQ(join_numbers({0, 1, 5}), "0, 1, 5");
  EXPECT_EQ(join_numbers({}), "");
}

TEST(Contains, FindsAPartAnywhereAndTheEmptyOneAlways) {
  EXPECT_TRUE(contains("timed out", "out"));
  EXPECT_TRUE(contains("timed out", ""));
  EXPECT_FALSE(contains("out", "timed out"));
}

}  // namespace
}  // namespace lockstep
