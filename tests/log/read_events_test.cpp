#include "lockstep/log/read_events.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/log/record.h"

namespace lockstep::log {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string two_events() {
  return frame_record(encode_event({.wall_time = 1, .file_version = kFileVersion})) +
         frame_record(encode_event({.wall_time = 2, .summary = {{"a", 3.0F}}}));
}

TEST(ReadEvents, ACutFileGivesItsWholeEvents) {
  const auto bytes = two_events();
  EXPECT_EQ(parse_events(bytes, "x").events.size(), 2);
  EXPECT_FALSE(parse_events(bytes, "x").is_cut);
  const auto cut = parse_events(std::string_view(bytes).substr(0, bytes.size() - 1), "x");
  EXPECT_EQ(cut.events.size(), 1);
  EXPECT_TRUE(cut.is_cut);
}

TEST(ReadEvents, ARecordThatIsNoEventIsNamedWithItsPlace) {
  const auto bytes = two_events() + frame_record("\x08");
  EXPECT_THAT(
      [&] { parse_events(bytes, "run/events"); },
      ThrowsMessage<IoError>(HasSubstr("reading 'run/events': the record at byte " +
                                       std::to_string(two_events().size()) + " is no event: ")));
}

TEST(ReadEvents, AMissingFileIsAnError) {
  EXPECT_THAT([] { read_events("/nowhere/events"); },
              ThrowsMessage<IoError>(HasSubstr("/nowhere/events")));
}

}  // namespace
}  // namespace lockstep::log
