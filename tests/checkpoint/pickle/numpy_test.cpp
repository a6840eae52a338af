#include "lockstep/checkpoint/pickle/numpy.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::Throws;
using ::testing::ThrowsMessage;

class PickleNumpy : public ::testing::Test {
 protected:
  NodeId type(const char* code) { return numpy_type(nodes_, {nodes_.add(Value(code))}, cursor_); }
  // As numpy writes it: the type, and the number's bytes.
  template <class T>
  NodeId scalar(const char* code, T number) {
    const std::string bytes(reinterpret_cast<const char*>(&number), sizeof number);
    return numpy_scalar(nodes_, {type(code), nodes_.add(Value(Bytes{bytes}))}, cursor_);
  }

  Nodes nodes_;
  const Cursor cursor_{"'f'", {}};
};

TEST_F(PickleNumpy, NumbersBecomePythons) {
  EXPECT_EQ(*nodes_.get_if<double>(scalar("f8", 1.5)), 1.5);
  EXPECT_EQ(*nodes_.get_if<double>(scalar("f4", 2.5F)), 2.5);
  EXPECT_EQ(*nodes_.get_if<std::int64_t>(scalar("i8", std::int64_t{-3})), -3);
  EXPECT_EQ(*nodes_.get_if<std::int64_t>(scalar("i4", std::int32_t{-4})), -4);
  EXPECT_TRUE(*nodes_.get_if<bool>(scalar("b1", true)));
}

TEST_F(PickleNumpy, AnotherTypeIsRefused) {
  EXPECT_THAT([&] { type("c16"); },
              ThrowsMessage<IoError>(HasSubstr("save Python's int or float")));
  EXPECT_THAT([&] { numpy_type(nodes_, {}, cursor_); }, Throws<IoError>());
}

TEST_F(PickleNumpy, BytesOfAnotherLengthAreRefused) {
  EXPECT_THAT([&] { scalar("f8", 1.5F); },
              ThrowsMessage<IoError>(HasSubstr("without its type or bytes")));
  EXPECT_THAT([&] { numpy_scalar(nodes_, {type("f8")}, cursor_); }, Throws<IoError>());
}

}  // namespace
}  // namespace lockstep::checkpoint
