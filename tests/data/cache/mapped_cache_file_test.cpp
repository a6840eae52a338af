#include "lockstep/data/cache/mapped_cache_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "lockstep/base/error.h"
#include "tests/data/cache/cached_images.h"
#include "tests/data/files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(MappedCacheFile, ShowsWhatWasWrittenWhereRoomWasReserved) {
  const test::TemporaryFolder folder;
  MappedCacheFile file(options_of(folder));
  const std::uint64_t end = file.capacity() + 100;
  const std::uint8_t last = 42;
  file.reserve(end);
  EXPECT_GE(file.capacity(), end);
  file.write(end - 1, {&last, 1});
  EXPECT_EQ(static_cast<std::uint8_t>(file.bytes()[end - 1]), last);
  EXPECT_GE(MappedCacheFile(options_of(folder)).capacity(), end) << "for another user of it";
}

TEST(MappedCacheFile, TooLittleRoomIsSaidBeforeTheFirstImage) {
  const test::TemporaryFolder folder;
  EXPECT_THAT([&] { MappedCacheFile(options_of(folder, std::uint64_t{1} << 50)); },
              ThrowsMessage<IoError>(
                  AllOf(HasSubstr(folder.file("cache")), HasSubstr("there is no room for"))));
  EXPECT_NE(::access(folder.file("cache").c_str(), F_OK), 0);
}

// Also where a process was killed while it made the file.
TEST(MappedCacheFile, TooLittleMemoryIsSaidBeforeAnyIsTaken) {
  const test::TemporaryFolder folder;
  ImageCacheOptions options = options_of(folder, std::uint64_t{1} << 50);
  options.in_memory = true;
  for (const bool is_there : {false, true}) {
    if (is_there) {
      write_file(folder.file("cache"), std::string(100'000, '\0'));
    }
    EXPECT_THAT([&] { MappedCacheFile{options}; },
                ThrowsMessage<IoError>(
                    AllOf(HasSubstr("1024.0 TiB are needed"), HasSubstr("are free in"))));
    EXPECT_NE(::access(folder.file("cache").c_str(), F_OK), 0);
  }
}

TEST(MappedCacheFile, MemoryThatCannotBeMappedIsGivenBack) {
  const test::TemporaryFolder folder;
  ImageCacheOptions options = options_of(folder);
  CacheHeader header = make_cache_header(7, kCachedImages, std::uint64_t{1} << 60);
  header.capacity = 1 << 20;
  std::string file(1 << 20, '\0');
  file.replace(0, sizeof header, reinterpret_cast<const char*>(&header), sizeof header);
  for (const bool in_memory : {false, true}) {
    options.in_memory = in_memory;
    write_file(options.path, file);
    ::chmod(options.path.c_str(), 0600);
    EXPECT_THAT([&] { MappedCacheFile{options}; }, ThrowsMessage<IoError>(HasSubstr("mapping 1")));
    EXPECT_EQ(::access(options.path.c_str(), F_OK) == 0, !in_memory);
  }
}

TEST(MappedCacheFile, AForeignLinkIsNotFollowed) {
  const test::TemporaryFolder folder;
  write_file(folder.file("victim"), "text");
  ASSERT_EQ(::symlink(folder.file("victim").c_str(), folder.file("cache").c_str()), 0);
  EXPECT_THROW(MappedCacheFile(options_of(folder)), IoError);
  EXPECT_EQ(read_file(folder.file("victim")), "text");
}

}  // namespace
}  // namespace lockstep::data
