#include "lockstep/log/record.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::log {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using namespace std::string_literals;

// 0xe3069283 is the crc32c of RFC 3720; the mask is rotated right by 15 and added to.
TEST(Record, SumsAreMasked) { EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5U); }

TEST(Record, ReadsWhatWasFramed) {
  const auto file = frame_record("first") + frame_record("") + frame_record("third");
  RecordReader reader(file, "x");
  EXPECT_EQ(reader.next(), "first");
  EXPECT_EQ(reader.offset(), 21);
  EXPECT_EQ(reader.next(), "");
  EXPECT_EQ(reader.next(), "third");
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_FALSE(reader.is_cut());
}

TEST(Record, ACutRecordIsTheEnd) {
  const auto first = frame_record("first");
  const auto file = first + frame_record("second");
  for (std::size_t size = first.size() + 1; size < file.size(); ++size) {
    RecordReader reader(std::string_view(file).substr(0, size), "x");
    EXPECT_EQ(reader.next(), "first");
    EXPECT_EQ(reader.next(), std::nullopt);
    EXPECT_TRUE(reader.is_cut());
  }
}

TEST(Record, AnyFlippedBitIsNamedWithItsPlace) {
  const auto first = frame_record("first");
  const auto file = first + frame_record("second");
  for (std::size_t bit = first.size() * 8; bit < file.size() * 8; ++bit) {
    auto damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    RecordReader reader(damaged, "run/events");
    reader.next();
    EXPECT_THAT([&] { reader.next(); },
                ThrowsMessage<IoError>(HasSubstr("'run/events': the checksum of the ")));
    EXPECT_THAT([&] { reader.next(); }, ThrowsMessage<IoError>(HasSubstr("record at byte 21 ")));
  }
}

}  // namespace
}  // namespace lockstep::log
