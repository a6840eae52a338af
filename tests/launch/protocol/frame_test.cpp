#include "lockstep/launch/protocol/frame.h"

#include <gmock/gmock.h>

#include "lockstep/launch/protocol/message.h"

namespace lockstep::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(FrameReader, FindsFramesHoweverTheStreamIsCut) {
  const std::string stream = greeting() + frame("one") + frame("") + frame("three");
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    FrameReader reader;
    std::vector<std::string> found;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      reader.feed(std::string_view(stream).substr(at, step));
      while (const auto payload = reader.next()) {
        found.push_back(*payload);
      }
    }
    EXPECT_THAT(found, ::testing::ElementsAre("one", "", "three")) << step;
  }
}

TEST(FrameReader, StrangersAreRecognisedByTheirFirstBytes) {
  FrameReader reader;
  reader.feed("G");
  EXPECT_THAT([&] { reader.next(); },
              ThrowsMessage<ProtocolError>(HasSubstr("not a lockstep launcher")));
}

TEST(FrameReader, OtherVersionsAreNamed) {
  FrameReader reader;
  reader.feed(greeting(99));
  EXPECT_THAT([&] { reader.next(); },
              ThrowsMessage<ProtocolError>(
                  AllOf(HasSubstr("version 99"), HasSubstr("this one version 4"))));
}

TEST(FrameReader, LengthIsCheckedBeforeTheBytesCome) {
  FrameReader reader;
  reader.feed(greeting() + std::string("\x00\x01\x00\x01", 4));
  EXPECT_THAT([&] { reader.next(); }, ThrowsMessage<ProtocolError>(HasSubstr("65537 bytes")));
}

TEST(FrameReader, LongestMessagePasses) {
  FrameReader reader;
  reader.feed(greeting() + frame(std::string(kMostMessageBytes, 'x')));
  EXPECT_EQ(reader.next()->size(), kMostMessageBytes);
  EXPECT_TRUE(reader.greeted());
}

}  // namespace
}  // namespace lockstep::launch
