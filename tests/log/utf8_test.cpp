#include "lockstep/log/utf8.h"

#include <gmock/gmock.h>

namespace lockstep::log {
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

}  // namespace
}  // namespace lockstep::log
