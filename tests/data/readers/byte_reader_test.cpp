#include "lockstep/data/readers/byte_reader.h"

#include <gmock/gmock.h>

#include <random>

#include "lockstep/base/error.h"
#include "tests/data/files.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// More than a block, and not easily packed.
std::string some_bytes(std::size_t count = 200'000) {
  std::mt19937 random(1);
  std::string bytes(count, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(random() % 50);
  }
  return bytes;
}

// In pieces of `piece` bytes.
std::string read_all(const std::string& content, std::size_t piece = 4096) {
  const MemoryFile file(content);
  ByteReader reader(file.path());
  std::string all;
  std::string buffer(piece, '\0');
  for (std::size_t got = piece; got == piece;) {
    got = reader.read(std::as_writable_bytes(std::span(buffer)));
    all += buffer.substr(0, got);
    EXPECT_EQ(reader.offset(), all.size());
  }
  return all;
}

TEST(ByteReader, ReadsAPlainFileInAnyPieces) {
  const std::string bytes = some_bytes();
  for (const std::size_t piece : {1, 1000, 65536, 1'000'000}) {
    EXPECT_TRUE(read_all(bytes, piece) == bytes) << piece;
  }
  EXPECT_EQ(read_all(""), "");
  EXPECT_EQ(read_all("\x1f"), "\x1f");
}

TEST(ByteReader, UnpacksGzipInAnyPieces) {
  const std::string bytes = some_bytes();
  for (const std::size_t piece : {1, 1000, 65536, 1'000'000}) {
    EXPECT_TRUE(read_all(gzip(bytes), piece) == bytes) << piece;
  }
  EXPECT_EQ(read_all(gzip("")), "");
}

TEST(ReadText, HasAllOfAFilePlainOrPacked) {
  const std::string bytes = some_bytes(std::size_t{1} << 20);  // One block, and its end.
  for (const std::string& content : {bytes, bytes + "more", gzip(bytes), std::string()}) {
    const MemoryFile file(content);
    EXPECT_TRUE(read_text(file.path()) == read_all(content)) << content.size();
  }
}

TEST(ByteReader, UnpacksMembersOneAfterAnother) {
  EXPECT_EQ(read_all(gzip("one ") + gzip("") + gzip("two")), "one two");
}

TEST(ByteReader, EveryCutOfGzipDataIsAnError) {
  const std::string packed = gzip(some_bytes(300));
  for (std::size_t size = 2; size < packed.size(); ++size) {
    EXPECT_THAT([&] { read_all(packed.substr(0, size)); },
                ThrowsMessage<IoError>(HasSubstr("cut off at byte " + std::to_string(size))));
  }
}

TEST(ByteReader, DamageAndWhatFollowsTheDataAreErrors) {
  std::string packed = gzip(some_bytes(300));
  EXPECT_THAT([&] { read_all(packed + "x"); }, ThrowsMessage<IoError>(HasSubstr("cut off")));
  EXPECT_THAT([&] { read_all(packed + "more"); },
              ThrowsMessage<IoError>(HasSubstr("incorrect header check")));
  packed[packed.size() - 5] ^= 1;  // Its checksum.
  EXPECT_THAT([&] { read_all(packed); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("damaged"), HasSubstr("/proc/self/fd"))));
}

TEST(ByteReader, NamesAFileThatIsMissingOrAFolder) {
  EXPECT_THAT([] { ByteReader("/nowhere/file"); },
              ThrowsMessage<IoError>(HasSubstr("'/nowhere/file'")));
  EXPECT_THAT([] { ByteReader("/proc"); }, ThrowsMessage<IoError>(HasSubstr("'/proc'")));
}

}  // namespace
}  // namespace lockstep::data
