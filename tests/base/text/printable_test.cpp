#include "lockstep/base/text/printable.h"

#include <gtest/gtest.h>

namespace lockstep {
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

TEST(Printable, MayShowWhereACharacterWas) {
  EXPECT_EQ(printable("a\x1b[2J\xC2\x9B"
                      "2J\x7F\xC3\xB6\xC2\xA0",
                      "", "?"),
            "a?[2J?2J?\xC3\xB6\xC2\xA0");
}

TEST(PrintableName, IsOneLineOfValidUtf8) {
  EXPECT_EQ(printable_name("a\n\x1b[2J\xff.\xc3\xb6"), "a??[2J\xef\xbf\xbd.\xc3\xb6");
}

}  // namespace
}  // namespace lockstep
