#include "lockstep/data/cache/image_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "tests/data/cache/cached_images.h"
#include "tests/data/files.h"
#include "tests/data/pictures.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ImageCache, KeepsImagesBetweenRuns) {
  const test::TemporaryFolder folder;
  {
    ImageCache cache(options_of(folder));
    EXPECT_FALSE(cache.get(3));
    EXPECT_TRUE(cache.put(3, image_of(3)));
    EXPECT_TRUE(cache.put(39, image_of(39)));
    EXPECT_EQ(right_images(cache), 2);
  }
  ImageCache again(options_of(folder));
  EXPECT_EQ(right_images(again), 2);
  EXPECT_EQ(view_text(again.get(3).value()), pixels_text(image_of(3)));
}

TEST(ImageCache, AnotherKeyStartsAnew) {
  const test::TemporaryFolder folder;
  {
    ImageCache(options_of(folder)).put(3, image_of(3));
  }
  ImageCacheOptions other = options_of(folder);
  other.key = 8;
  {
    EXPECT_EQ(right_images(*std::make_unique<ImageCache>(other)), 0);
  }
  ImageCache back(options_of(folder));
  EXPECT_EQ(right_images(back), 0);
}

TEST(ImageCache, DamageIsFoundAndMended) {
  const test::TemporaryFolder folder;
  {
    ImageCache cache(options_of(folder));
    cache.put(3, image_of(3));
    cache.put(4, image_of(4));
  }
  {
    std::fstream file(folder.file("cache"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8192 + 100);  // Pixels of the first image.
    file.put('!');
  }
  ImageCache cache(options_of(folder));
  EXPECT_FALSE(cache.get(3));
  EXPECT_TRUE(cache.get(4));
  cache.put(3, image_of(3));
  EXPECT_EQ(right_images(cache), 2);
}

// Whatever is cut off or written over: no crash, and no wrong image.
TEST(ImageCache, ABrokenFileIsMadeAnew) {
  const test::TemporaryFolder folder;
  for (const std::string content : {"", "short", "\0"}) {
    write_file(folder.file("cache"), content);
    ImageCache cache(options_of(folder));
    EXPECT_EQ(right_images(cache), 0);
  }
  {
    ImageCache(options_of(folder)).put(3, image_of(3));
  }
  ASSERT_EQ(::truncate(folder.file("cache").c_str(), 9000), 0);
  ImageCache cache(options_of(folder));
  EXPECT_EQ(right_images(cache), 0);
  cache.put(3, image_of(3));
  EXPECT_EQ(right_images(cache), 1);
}

// A counter from before a loss of power: new images must not be laid on old ones.
TEST(ImageCache, AnOldCounterIsRaised) {
  const test::TemporaryFolder folder;
  {
    ImageCache(options_of(folder)).put(3, image_of(3));
  }
  {
    const UniqueFd file(::open(folder.file("cache").c_str(), O_RDWR));
    const std::uint64_t start = 8192;
    ASSERT_EQ(::pwrite(file.get(), &start, 8, offsetof(CacheHeader, used)), 8);
  }
  ImageCache cache(options_of(folder));
  EXPECT_EQ(right_images(cache), 1);
  cache.put(4, image_of(4));
  EXPECT_EQ(right_images(cache), 2);
}

// Both counters are from before the file grew. The old image is seen again when it grows again.
TEST(ImageCache, WhatLiesBehindAnOldCapacityIsNotWrittenOver) {
  const test::TemporaryFolder folder;
  const ImageCacheOptions options = options_of(folder, 4096);
  const Image large = test_picture({2000, 1000});  // 6 MB.
  {
    EXPECT_TRUE(ImageCache(options).put(0, large));
  }
  {
    const UniqueFd file(::open(folder.file("cache").c_str(), O_RDWR));
    const std::uint64_t start = 8192;
    const std::uint64_t capacity = start + 4096;
    ASSERT_EQ(::pwrite(file.get(), &start, 8, offsetof(CacheHeader, used)), 8);
    ASSERT_EQ(::pwrite(file.get(), &capacity, 8, offsetof(CacheHeader, capacity)), 8);
  }
  ImageCache cache(options);
  EXPECT_TRUE(cache.put(1, image_of(1)));
  EXPECT_TRUE(cache.put(2, large));
  ASSERT_TRUE(cache.get(0));
  EXPECT_EQ(view_text(*cache.get(0)), pixels_text(large));
  EXPECT_EQ(view_text(cache.get(1).value()), pixels_text(image_of(1)));
}

TEST(ImageCache, GrowsBeyondWhatWasExpectedUpToItsLimit) {
  const test::TemporaryFolder folder;
  ImageCacheOptions options = options_of(folder, 4096);
  options.images = 6;
  const Image large = test_picture({3000, 2500});  // 22.5 MB.
  ImageCache cache(options);
  EXPECT_TRUE(cache.put(0, large));
  EXPECT_TRUE(cache.put(1, large));
  EXPECT_FALSE(cache.put(2, large));
  EXPECT_FALSE(cache.get(2));
  EXPECT_EQ(view_text(cache.get(1).value()), pixels_text(large));
  struct stat status{};
  ASSERT_EQ(::stat(folder.file("cache").c_str(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, 45'000'000);  // Reserved, not sparse.
}

TEST(ImageCache, SaysWhyItCouldNotAskForMoreRoom) {
  const test::TemporaryFolder folder;
  ImageCache cache(options_of(folder, 4096));
  const Image large = test_picture({2000, 1000});
  {
    const NoMoreFiles limit;
    EXPECT_FALSE(cache.put(0, large));
  }
  EXPECT_THAT(cache.why_full(), HasSubstr("opening it to reserve room: Too many open files"));
}

}  // namespace
}  // namespace lockstep::data
