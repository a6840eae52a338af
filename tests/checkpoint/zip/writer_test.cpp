#include "lockstep/checkpoint/zip/writer.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lockstep/base/crc32c/crc32c.h"
#include "lockstep/checkpoint/zip/reader.h"
#include "tests/checkpoint/values.h"

namespace lockstep::checkpoint {
namespace {

TEST(ZipWriter, WritesTheBytesOfTorchSave) {
  // Everything in front of the directory: the records, their headers, padding and sums.
  const std::string torch = seed("pt/one.pt");
  const ZipFile zip = read_zip("one.pt", as_bytes(torch));
  std::string ours;
  ZipWriter writer([&](std::span<const std::byte> bytes) { ours += as_text(bytes); },
                   std::string(zip.folder));
  for (const ZipRecord& record : zip.records) {
    writer.add(record.name, record.bytes);
  }
  writer.finish(0);
  EXPECT_EQ(ours, torch);
}

TEST(ZipWriter, CountsAndSumsWhatItWrites) {
  std::string file;
  ZipWriter zip([&](std::span<const std::byte> bytes) { file += as_text(bytes); }, "x");
  zip.add("record", as_bytes("content"));
  zip.finish(0);
  EXPECT_EQ(zip.bytes(), file.size());
  EXPECT_EQ(zip.crc32c(), crc32c(as_bytes(file)));
}

// Memory of zeros, of which the kernel has one page, and a file with a hole.
TEST(ZipWriter, RecordsBeyondFourGigabytesAreFound) {
  constexpr std::size_t kBytes = (std::size_t{1} << 32) + 100;
  void* const zeros =
      ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  const UniqueFd file(::memfd_create("large", MFD_CLOEXEC));
  ZipWriter writer(
      [&](std::span<const std::byte> bytes) {
        if (bytes.size() == kBytes) {
          ASSERT_GT(::lseek(file.get(), kBytes, SEEK_CUR), 0);
        } else {
          ASSERT_TRUE(write_all(file.get(), as_text(bytes)));
        }
      },
      "x");
  writer.add("small", as_bytes("one"));
  writer.add("large", {static_cast<const std::byte*>(zeros), kBytes});
  writer.add("behind", as_bytes("two"));
  writer.finish(0);
  void* const mapped = ::mmap(nullptr, writer.bytes(), PROT_READ, MAP_SHARED, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const ZipFile zip = read_zip("large", {static_cast<const std::byte*>(mapped), writer.bytes()});
  ASSERT_EQ(zip.records.size(), 3U);
  EXPECT_EQ(zip.find("large")->bytes.size(), kBytes);
  EXPECT_EQ(zip.find("large")->offset % 64, 0U);
  EXPECT_GT(zip.find("behind")->offset, kBytes);
  EXPECT_EQ(as_text(zip.find("behind")->bytes), "two");
  EXPECT_TRUE(is_sound(*zip.find("behind")));
  ::munmap(mapped, writer.bytes());
  ::munmap(zeros, kBytes);
}

}  // namespace
}  // namespace lockstep::checkpoint
