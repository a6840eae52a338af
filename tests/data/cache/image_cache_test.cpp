#include "lockstep/data/cache/image_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "tests/base/child.h"
#include "tests/data/files.h"
#include "tests/data/pictures.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kCachedImages = 40;

// No two begin alike.
Image image_of(std::int64_t index) {
  Image image = test_picture({10 + index, 20});
  for (std::size_t i = 0; i < image.bytes(); ++i) {
    image.pixels[i] ^= static_cast<std::uint8_t>(index);
  }
  return image;
}

ImageCacheOptions options_of(const test::TemporaryFolder& folder, std::uint64_t bytes = 1 << 20) {
  return {.path = folder.file("cache"), .key = 7, .images = kCachedImages, .bytes = bytes};
}

// How many images are there; each must be right.
int right_images(ImageCache& cache) {
  int found = 0;
  for (std::int64_t i = 0; i < kCachedImages; ++i) {
    if (const auto view = cache.get(i)) {
      EXPECT_EQ(view_text(*view), pixels_text(image_of(i))) << i;
      ++found;
    }
  }
  return found;
}

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

TEST(ImageCache, TooLittleRoomIsSaidBeforeTheFirstImage) {
  const test::TemporaryFolder folder;
  EXPECT_THAT([&] { ImageCache(options_of(folder, std::uint64_t{1} << 50)); },
              ThrowsMessage<IoError>(
                  AllOf(HasSubstr(folder.file("cache")), HasSubstr("there is no room for"))));
  EXPECT_NE(::access(folder.file("cache").c_str(), F_OK), 0);
}

TEST(ImageCache, AForeignLinkIsNotFollowed) {
  const test::TemporaryFolder folder;
  write_file(folder.file("victim"), "text");
  ASSERT_EQ(::symlink(folder.file("victim").c_str(), folder.file("cache").c_str()), 0);
  EXPECT_THROW(ImageCache(options_of(folder)), IoError);
  EXPECT_EQ(read_file(folder.file("victim")), "text");
}

TEST(ImageCache, TheLastUserRemovesIt) {
  const test::TemporaryFolder folder;
  ImageCacheOptions options = options_of(folder);
  options.remove_when_last = true;
  auto first = std::make_unique<ImageCache>(options);
  auto second = std::make_unique<ImageCache>(options);
  first->put(3, image_of(3));
  first.reset();
  EXPECT_EQ(right_images(*second), 1);
  EXPECT_EQ(::access(folder.file("cache").c_str(), F_OK), 0);
  second.reset();
  EXPECT_NE(::access(folder.file("cache").c_str(), F_OK), 0);
}

TEST(ImageCache, ThreadsWriteAndReadAtTheSameTime) {
  const test::TemporaryFolder folder;
  ImageCache cache(options_of(folder));
  {
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < 4; ++worker) {
      threads.emplace_back([&cache] {
        for (std::int64_t i = 0; i < kCachedImages; ++i) {
          if (!cache.get(i)) {
            cache.put(i, image_of(i));
          }
        }
      });
    }
  }
  EXPECT_EQ(right_images(cache), kCachedImages);
}

TEST(ImageCache, ProcessesShareIt) {
  const test::TemporaryFolder folder;
  std::vector<pid_t> children;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    children.push_back(test::fork_child([&, rank] {
      ImageCache cache(options_of(folder));
      for (std::int64_t i = rank; i < kCachedImages; i += 4) {
        cache.put(i, image_of(i));
      }
      return 0;
    }));
  }
  for (const pid_t child : children) {
    EXPECT_EQ(test::wait_for(child), 0);
  }
  ImageCache cache(options_of(folder));
  EXPECT_EQ(right_images(cache), kCachedImages);
}

// Killed while it writes an image, a few images after the first: what is there is right, and the
// rest can be written.
TEST(ImageCache, AKilledWriterLeavesNothingHalfDone) {
  const test::TemporaryFolder folder;
  for (int round = 0; round < 20; ++round) {
    ::unlink(folder.file("cache").c_str());
    Pipe progress = make_pipe();
    const pid_t child = test::fork_child([&]() -> int {
      ImageCache cache(options_of(folder, 1 << 24));
      while (true) {
        for (std::int64_t i = 0; i < kCachedImages; ++i) {
          cache.put(i, image_of(i));
          write_all(progress.write_end.get(), ".");
        }
      }
    });
    progress.write_end.reset();
    char written = 0;
    for (int i = 0; i <= round; ++i) {
      ASSERT_EQ(::read(progress.read_end.get(), &written, 1), 1);
    }
    ::kill(child, SIGKILL);
    test::wait_for(child);
    ImageCache cache(options_of(folder, 1 << 24));
    EXPECT_GT(right_images(cache), round);
    for (std::int64_t i = 0; i < kCachedImages; ++i) {
      cache.put(i, image_of(i));
    }
    EXPECT_EQ(right_images(cache), kCachedImages);
  }
}

}  // namespace
}  // namespace lockstep::data
