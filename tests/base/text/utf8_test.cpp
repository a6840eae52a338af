#include "lockstep/base/text/utf8.h"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

TEST(Utf8, ValidTextStays) {
  for (const char* text : {"", "plain", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x7f"}) {
    EXPECT_EQ(valid_utf8(text), text);
  }
}

TEST(Utf8, EachWrongByteIsReplaced) {
  const std::string mark = "\xef\xbf\xbd";
  EXPECT_EQ(valid_utf8("a\xff"
                       "b"),
            "a" + mark + "b");
  EXPECT_EQ(valid_utf8("\xc3"), mark) << "cut";
  EXPECT_EQ(valid_utf8("\xc0\xaf"), mark + mark) << "longer than it needs to be";
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), mark + mark + mark) << "a surrogate";
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), mark + mark + mark + mark) << "beyond U+10FFFF";
}

TEST(Utf8, SurrogatesAreTextOnlyWhereTheyAreAllowed) {
  EXPECT_TRUE(is_utf8("gr\xc3\xbc\xc3\x9f\x65 \xf0\x9f\x98\x80"));
  EXPECT_FALSE(is_utf8("\xed\xa0\x80"));
  EXPECT_TRUE(is_utf8("\xed\xa0\x80", Surrogates::kAllowed));
  EXPECT_FALSE(is_utf8("\xe0\x80\x80", Surrogates::kAllowed)) << "longer than it needs to be";
  EXPECT_FALSE(is_utf8("\xc3", Surrogates::kAllowed)) << "cut";
}

}  // namespace
}  // namespace lockstep
