#include "lockstep/log/protobuf.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::log {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using namespace std::string_literals;

// The examples of https://protobuf.dev/programming-guides/encoding
TEST(Protobuf, WritesThePublishedExamples) {
  ProtoWriter number;
  number.add_varint(1, 150);
  EXPECT_EQ(number.bytes(), "\x08\x96\x01"s);
  ProtoWriter text;
  text.add_bytes(2, "testing");
  EXPECT_EQ(text.bytes(), "\x12\x07testing"s);
}

TEST(Protobuf, ReadsWhatItWrote) {
  ProtoWriter writer;
  writer.add_varint(1, ~std::uint64_t{0});
  writer.add_double(2, -0.1);
  writer.add_float(300, 1.5F);
  writer.add_bytes(4, "a\0b"s);
  writer.add_doubles(5, {});
  ProtoReader reader(writer.bytes());
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.as_varint(), ~std::uint64_t{0});
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.as_double(), -0.1);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.field(), 300);
  EXPECT_EQ(reader.as_float(), 1.5F);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.as_bytes(), "a\0b"s);
  EXPECT_FALSE(reader.next());
}

TEST(Protobuf, RefusesBytesThatAreNoMessage) {
  const auto refused = [](const std::string& bytes, const char* what) {
    EXPECT_THAT([&] { ProtoReader(bytes).next(); }, ThrowsMessage<IoError>(HasSubstr(what)));
  };
  refused("\x12\x07test"s, "a field of 7 bytes where 4 are left");
  refused("\x08"s, "a field of 1 bytes where 0 are left");
  refused("\x08" + std::string(10, '\xff'), "more than 10 bytes");
  refused("\x00\x01"s, "a field of number 0");
  refused("\x0b"s, "wire type 3");
}

TEST(Protobuf, AFieldOfAnotherTypeIsAnError) {
  ProtoReader reader("\x08\x01");
  ASSERT_TRUE(reader.next());
  EXPECT_THAT([&] { static_cast<void>(reader.as_bytes()); },
              ThrowsMessage<IoError>(HasSubstr("field 1 of wire type 0, expected 2")));
}

}  // namespace
}  // namespace lockstep::log
