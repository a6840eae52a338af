#include "lockstep/checkpoint/zip/reader.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/checkpoint/values.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string two_records() {
  std::string file;
  ZipWriter zip([&](std::span<const std::byte> bytes) { file += as_text(bytes); }, "x");
  zip.add("first", as_bytes("hello"));
  zip.add("second", as_bytes(""));
  zip.finish(3);
  zip.comment("end");
  return file;
}

void expect_fault(const std::string& file, const std::string& what) {
  EXPECT_THAT([&] { read_zip("f", as_bytes(file)); }, ThrowsMessage<IoError>(HasSubstr(what)));
}

std::string with_replaced(std::string file, const std::string& from, const std::string& to,
                          std::size_t after = 0) {
  return file.replace(file.find(from, after), from.size(), to);
}

// what() ends at a NUL byte, and a terminal obeys others.
TEST(ReadZip, AMessageIsWholeWhateverANameHasInIt) {
  const std::string file = two_records();
  const std::string odd("x/fi\0s\x1b", 7);
  expect_fault(with_replaced(file, "x/first", odd, file.find("PK\x01\x02")),
               "'x/fi?s?' under another name, or with other flags, in its own header, at byte");
}

TEST(ReadZip, ReadsWhatTheWriterWrites) {
  const std::string file = two_records();
  const ZipFile zip = read_zip("f", as_bytes(file));
  EXPECT_EQ(zip.folder, "x");
  EXPECT_EQ(zip.comment, "end");
  ASSERT_EQ(zip.records.size(), 2U);
  EXPECT_EQ(as_text(zip.find("first")->bytes), "hello");
  EXPECT_EQ(zip.find("first")->offset % 64, 0U);
  EXPECT_TRUE(is_sound(*zip.find("first")));
  EXPECT_TRUE(is_sound(*zip.find("second")));
  EXPECT_EQ(zip.find("third"), nullptr);
}

TEST(ReadZip, ReadsWhatTorchWrote) {
  const std::string file = seed("pt/torchvision.pt");
  const ZipFile zip = read_zip("f", as_bytes(file));
  EXPECT_EQ(as_text(zip.find("byteorder")->bytes), "little");
  for (const ZipRecord& record : zip.records) {
    EXPECT_TRUE(is_sound(record)) << record.name;
  }
}

TEST(ReadZip, ADamagedRecordIsNotSound) {
  const std::string file = with_replaced(two_records(), "hello", "hallo");
  const ZipFile zip = read_zip("f", as_bytes(file));
  EXPECT_FALSE(is_sound(*zip.find("first")));
}

TEST(ReadZip, EveryShorterFileIsRefused) {
  const std::string file = two_records();
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THROW(read_zip("f", as_bytes(std::string_view(file).substr(0, size))), IoError) << size;
  }
}

TEST(ReadZip, RefusesWhatTorchDoesNotWrite) {
  const std::string file = two_records();
  const std::size_t directory = file.find("PK\x01\x02");
  expect_fault(with_replaced(file, "x/first", "x/other", directory), "under another name");
  expect_fault(
      with_replaced(with_replaced(file, "x/second", "y/second"), "x/second", "y/second", directory),
      "expected all records in one folder");
  std::string packed = file;
  packed[directory + 10] = 8;
  expect_fault(packed, "packed or encrypted");
  std::string outside = file;
  outside[directory + 45] = '\x70';  // The offset's highest byte.
  expect_fault(outside, "outside of its data");
  std::string many = file;
  many[file.find("PK\x06\x06") + 32 + 5] = 1;
  expect_fault(many, "counts");
}

TEST(ReadZip, RefusesOverlappingRecordsAndTwoOfOneName) {
  const std::string file = two_records();
  const std::size_t directory = file.find("PK\x01\x02");
  const std::size_t second = file.find("PK\x01\x02", directory + 1);
  // Both entries name the first record.
  std::string twice = file;
  twice.replace(second, std::string::npos,
                file.substr(directory, second - directory) + file.substr(file.find("PK\x06\x06")));
  const std::size_t end = twice.find("PK\x06\x06");
  twice[end + 40] = static_cast<char>(end - directory);
  twice[end + 56 + 8] = static_cast<char>(end);
  expect_fault(twice, "two records 'x/first'");
  std::string longer = file;
  longer[directory + 20] = longer[directory + 24] = 127;
  EXPECT_THAT(
      [&] { read_zip("f", as_bytes(longer)); },
      ThrowsMessage<IoError>(AnyOf(HasSubstr("overlapping"), HasSubstr("needs 127 bytes"))));
}

}  // namespace
}  // namespace lockstep::checkpoint
