#include "lockstep/checkpoint/cursor.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Cursor, ReadsLittleEndianNumbersTextAndLines) {
  Cursor cursor("'f'", as_bytes("\x01\x02xyline\nz"));
  EXPECT_EQ(cursor.number(2, "a number"), 0x0201U);
  EXPECT_EQ(cursor.text(2, "text"), "xy");
  EXPECT_EQ(cursor.line("a line"), "line");
  EXPECT_EQ(cursor.left(), 1U);
}

TEST(Cursor, SaysWhatIsMissingAndWhereInTheFile) {
  Cursor cursor("'f'", as_bytes("abc"), 100);
  cursor.take(2, "two");
  EXPECT_THAT(
      [&] { cursor.number(4, "a length"); },
      ThrowsMessage<IoError>(HasSubstr("'f' needs 4 bytes for a length, has 1, at byte 102")));
  EXPECT_THAT([&] { cursor.line("a name"); },
              ThrowsMessage<IoError>(HasSubstr("no end of line after a name")));
}

}  // namespace
}  // namespace lockstep::checkpoint
