#include "lockstep/launch/printable.h"

#include <gtest/gtest.h>

namespace lockstep::launch {
namespace {

TEST(PrintableLine, HasNoControlCharactersButTabs) {
  EXPECT_EQ(printable_line("a\tb\r\nc\x1b[31m\x7f"), "a\tbc[31m");
  EXPECT_EQ(printable_line(std::string("a\0b", 3)), "ab");
}

TEST(PrintableLine, HasNoneOfThoseThatTakeTwoBytes) {
  EXPECT_EQ(printable_line("\xc2\x9b"
                           "31mred\xc2\x80"),
            "31mred");
}

TEST(PrintableLine, KeepsLettersOfOtherLanguages) {
  EXPECT_EQ(printable_line("gr\xc3\xbc\xc3\x9f\x65 \xc2\xa0\xc2"),
            "gr\xc3\xbc\xc3\x9f\x65 \xc2\xa0\xc2");
}

TEST(PrintableText, KeepsItsLines) { EXPECT_EQ(printable_text("a\r\nb\x07"), "a\nb"); }

}  // namespace
}  // namespace lockstep::launch
