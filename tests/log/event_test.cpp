#include "lockstep/log/event.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/log/record.h"

namespace lockstep::log {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
    text += two;
  }
  return text;
}

// The worked example of docs/internals/event_file_format.md.
TEST(Event, HasTheBytesOfTheDocumentedExample) {
  const Event event{.wall_time = 1.5, .step = 300, .summary = {{"Loss/train", 0.25F}}};
  EXPECT_EQ(hex(frame_record(encode_event(event))),
            "2100000000000000"
            "017becf6"
            "09000000000000f83f"
            "10ac02"
            "2a13"
            "0a11"
            "0a0a4c6f73732f747261696e"
            "150000803e"
            "67e4da3b");
}

TEST(Event, ReadsWhatItWrote) {
  const Histogram histogram{.min = -1,
                            .max = 2,
                            .num = 3,
                            .sum = 4,
                            .sum_squares = 5,
                            .bucket_limit = {0, 1},
                            .bucket = {2, 1}};
  const Event event{.wall_time = 1e9,
                    .step = -7,
                    .file_version = kFileVersion,
                    .summary = {{"a", 0.0F}, {"b", std::string("text")}, {"c", histogram}},
                    .session_start = true,
                    .writer = "lockstep"};
  const auto read = parse_event(encode_event(event));
  EXPECT_EQ(read.wall_time, 1e9);
  EXPECT_EQ(read.step, -7);
  EXPECT_EQ(read.file_version, kFileVersion);
  EXPECT_TRUE(read.session_start);
  EXPECT_EQ(read.writer, "lockstep");
  ASSERT_EQ(read.summary.size(), 3);
  EXPECT_EQ(std::get<float>(read.summary[0].value), 0);
  EXPECT_EQ(read.summary[1].tag, "b");
  EXPECT_EQ(std::get<std::string>(read.summary[1].value), "text");
  const auto& found = std::get<Histogram>(read.summary[2].value);
  EXPECT_EQ(found.min, -1);
  EXPECT_EQ(found.max, 2);
  EXPECT_EQ(found.num, 3);
  EXPECT_EQ(found.sum, 4);
  EXPECT_EQ(found.sum_squares, 5);
  EXPECT_THAT(found.bucket_limit, ElementsAre(0, 1));
  EXPECT_THAT(found.bucket, ElementsAre(2, 1));
}

TEST(Event, AHistogramMustBeWhole) {
  Histogram histogram{.bucket_limit = {0, 1}, .bucket = {2}};
  const auto bytes = encode_event({.summary = {{"c", histogram}}});
  EXPECT_THAT([&] { parse_event(bytes); },
              ThrowsMessage<IoError>(HasSubstr("a histogram of 1 buckets with 2 limits")));
}

}  // namespace
}  // namespace lockstep::log
