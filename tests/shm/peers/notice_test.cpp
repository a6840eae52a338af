#include "lockstep/shm/peers/notice.h"

#include <gmock/gmock.h>

#include "lockstep/shm/segments/layout.h"

namespace lockstep::shm {
namespace {

const Notice kNotice{.socket = "name", .secret = "word", .pid = 12, .host_id = "id", .host = "box"};

// The same notice as a rank of this version of the protocol would post it.
std::string text_of_version(std::uint32_t version) {
  const std::string text = notice_text(kNotice);
  return std::to_string(version) + text.substr(text.find('\n'));
}

TEST(Notice, IsReadAsItWasWritten) {
  const auto notice = parse_notice(text_of_version(kVersion));
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->socket, "name");
  EXPECT_EQ(notice->secret, "word");
  EXPECT_EQ(notice->pid, 12);
  EXPECT_EQ(notice->host_id, "id");
  EXPECT_EQ(notice->host, "box");
}

TEST(Notice, OfAnotherVersionIsNone) {
  EXPECT_FALSE(parse_notice(text_of_version(kVersion - 1)));
  EXPECT_FALSE(parse_notice(text_of_version(kVersion + 1)));
  EXPECT_FALSE(parse_notice(text_of_version(0)));
}

TEST(Notice, WithOtherLinesIsNone) {
  const std::string good = notice_text(kNotice);
  EXPECT_FALSE(parse_notice(""));
  EXPECT_FALSE(parse_notice("garbage"));
  EXPECT_FALSE(parse_notice(good + "\nmore"));
  EXPECT_FALSE(parse_notice(good.substr(0, good.rfind('\n'))));
  EXPECT_FALSE(parse_notice("x" + good));
}

TEST(NewSecret, IsLongAndAnotherEachTime) {
  EXPECT_EQ(new_secret().size(), 32U);
  EXPECT_NE(new_secret(), new_secret());
}

TEST(Hello, IsReadAsItWasWritten) {
  const auto hello = parse_hello(hello_text({.rank = 7, .secret = std::string(32, 'x')}));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->rank, 7);
  EXPECT_EQ(hello->secret, std::string(32, 'x'));
}

TEST(Hello, OfAnotherVersionOrLengthIsNone) {
  const std::string good = hello_text({.rank = 7, .secret = std::string(32, 'x')});
  std::string other = good;
  other[8] = static_cast<char>(kVersion + 1);
  EXPECT_FALSE(parse_hello(other));
  EXPECT_FALSE(parse_hello(good + "x"));
  EXPECT_FALSE(parse_hello(good.substr(1)));
  EXPECT_FALSE(parse_hello(""));
}

}  // namespace
}  // namespace lockstep::shm
