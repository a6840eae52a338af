#include "lockstep/data/readers/idx.h"

#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "lockstep/base/error.h"
#include "tests/data/files.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

IdxArray load(const std::string& content) { return load_idx(MemoryFile(content).path()); }

auto refuses_with(const std::string& part) {
  return ThrowsMessage<IoError>(AllOf(HasSubstr("read_idx '/proc/self/fd"), HasSubstr(part)));
}

template <class T>
std::vector<T> elements(const IdxArray& array) {
  std::vector<T> values(array.bytes.size() / sizeof(T));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

TEST(LoadIdx, ReadsBytesPlainAndPacked) {
  const std::string file = idx_header(0x08, {2, 3}) + "abcdef";
  for (const auto& content : {file, gzip(file)}) {
    const IdxArray array = load(content);
    EXPECT_EQ(array.type, IdxType::kUint8);
    EXPECT_THAT(array.sizes, ElementsAre(2, 3));
    EXPECT_THAT(elements<char>(array), ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  }
}

TEST(LoadIdx, TurnsElementsIntoNativeOrder) {
  EXPECT_THAT(
      elements<std::int16_t>(load(idx_header(0x0b, {2}) + std::string("\x01\x02\xff\xfe", 4))),
      ElementsAre(0x0102, -2));
  EXPECT_THAT(
      elements<std::int32_t>(load(idx_header(0x0c, {1}) + std::string("\x01\x02\x03\x04", 4))),
      ElementsAre(0x01020304));
  EXPECT_THAT(elements<float>(load(idx_header(0x0d, {1}) + std::string("\x3f\xc0\0\0", 4))),
              ElementsAre(1.5F));
  EXPECT_THAT(
      elements<double>(load(idx_header(0x0e, {1}) + std::string("\x3f\xf8\0\0\0\0\0\0", 8))),
      ElementsAre(1.5));
}

TEST(LoadIdx, AnEmptyArrayIsAnArray) {
  const IdxArray array = load(idx_header(0x08, {0, 28, 28}));
  EXPECT_THAT(array.sizes, ElementsAre(0, 28, 28));
  EXPECT_TRUE(array.bytes.empty());
}

TEST(LoadIdx, AnotherKindOfFileIsNamedAsSuch) {
  EXPECT_THAT([] { load("PNG file"); }, refuses_with("starts with 80 78 71 32"));
  EXPECT_THAT([] { load(idx_header(0x0a, {1})); }, refuses_with("starts with 0 0 10 1"));
  EXPECT_THAT([] { load(idx_header(0x08, {})); }, refuses_with("starts with 0 0 8 0"));
}

TEST(LoadIdx, AHeaderThatIsCutSaysWhere) {
  EXPECT_THAT([] { load(""); }, refuses_with("ends at byte 0, inside the header"));
  EXPECT_THAT([] { load(idx_header(0x08, {1, 2}).substr(0, 10)); },
              refuses_with("ends at byte 10, inside the header"));
}

TEST(LoadIdx, MissingDataSayWhatWasAnnouncedAndFound) {
  const std::string file = idx_header(0x08, {2, 3}) + "abcd";
  for (const auto& content : {file, gzip(file)}) {
    EXPECT_THAT([&] { load(content); },
                refuses_with("2x3 elements, 6 bytes, and the data end after 4, at byte 16"));
  }
}

TEST(LoadIdx, MoreDataThanAnnouncedIsAnError) {
  const std::string file = idx_header(0x08, {2, 3}) + "abcdefg";
  for (const auto& content : {file, gzip(file)}) {
    EXPECT_THAT([&] { load(content); }, refuses_with("end at byte 18, and more data follow"));
  }
}

// Memory for what is announced does not exist anywhere: it must not be asked for.
TEST(LoadIdx, AnnouncingMuchCostsNothing) {
  EXPECT_THAT([] { load(idx_header(0x08, {0xffffffff, 0x7fffffff}) + "abc"); },
              refuses_with("the data end after 3"));
  EXPECT_THAT([] { load(gzip(idx_header(0x0e, {0xffffffff, 0x0fffffff}) + "abc")); },
              refuses_with("the data end after 3"));
}

TEST(LoadIdx, ANumberOfBytesThatDoesNotExistIsRefused) {
  EXPECT_THAT([] { load(idx_header(0x08, {0xffffffff, 0xffffffff, 2})); },
              refuses_with("expected less than 2^63 bytes"));
  // Nor do strides of that size.
  EXPECT_THAT([] { load(idx_header(0x08, {0, 0xffffffff, 0xffffffff, 0xffffffff})); },
              refuses_with("expected less than 2^63 bytes"));
}

TEST(LoadIdx, AMutatedFileIsReadOrRefused) {
  const std::string plain = idx_header(0x08, {10, 4, 4}) + std::string(160, 'x');
  std::mt19937 random(1);
  int refused = 0;
  for (const auto& sound : {plain, gzip(plain)}) {
    for (int i = 0; i < 4000; ++i) {
      std::string content = sound;
      for (unsigned edits = random() % 3 + 1; edits > 0; --edits) {
        content[random() % content.size()] = static_cast<char>(random());
      }
      content.resize(random() % 4 == 0 ? random() % content.size() : content.size());
      try {
        load(content);
      } catch (const IoError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 4000);
}

}  // namespace
}  // namespace lockstep::data
