// A cache with several users: threads, processes, forks, and those that are killed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/data/cache/image_cache.h"
#include "lockstep/data/cache/shared_file.h"
#include "tests/data/cache/cached_images.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

TEST(ImageCache, TheLastUserRemovesIt) {
  const test::TemporaryFolder folder;
  ImageCacheOptions options = options_of(folder);
  options.in_memory = true;
  auto first = std::make_unique<ImageCache>(options);
  auto second = std::make_unique<ImageCache>(options);
  first->put(3, image_of(3));
  first.reset();
  EXPECT_EQ(right_images(*second), 1);
  EXPECT_EQ(::access(folder.file("cache").c_str(), F_OK), 0);
  second.reset();
  EXPECT_NE(::access(folder.file("cache").c_str(), F_OK), 0);
}

TEST(ImageCache, TheLastUserRemovesNoOther) {
  const test::TemporaryFolder folder;
  ImageCacheOptions options = options_of(folder);
  options.in_memory = true;
  auto mine = std::make_unique<ImageCache>(options);
  ::unlink(folder.file("cache").c_str());
  ImageCache other(options);
  other.put(3, image_of(3));
  mine.reset();
  EXPECT_EQ(::access(folder.file("cache").c_str(), F_OK), 0);
  ImageCache joined(options);
  EXPECT_EQ(right_images(joined), 1);
}

// A worker that was forked and ends in order, while its parent goes on.
TEST(ImageCache, AForkThatEndsTakesNothingAway) {
  const test::TemporaryFolder folder;
  ImageCacheOptions options = options_of(folder);
  options.in_memory = true;
  auto cache = std::make_unique<ImageCache>(options);
  cache->put(3, image_of(3));
  EXPECT_EQ(test::run_in_child([&] {
              cache.reset();
              return 0;
            }),
            0);
  EXPECT_EQ(::access(folder.file("cache").c_str(), F_OK), 0);
  const UniqueFd other(::open(folder.file("cache").c_str(), O_RDWR));
  EXPECT_EQ(::flock(other.get(), LOCK_SH | LOCK_NB), 0) << "the next rank cannot join";
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

// Ranks that start together all find no file.
TEST(ImageCache, ManyMakeItAtOnceAndNobodyWaits) {
  const test::TemporaryFolder folder;
  constexpr int kUsers = 4;
  std::barrier together(kUsers);
  std::atomic<int> right = 0;
  std::vector<std::jthread> users;
  for (int user = 0; user < kUsers; ++user) {
    users.emplace_back([&, user] {
      for (int round = 0; round < 50; ++round) {
        ImageCacheOptions options = options_of(folder);
        options.path += std::to_string(round);
        together.arrive_and_wait();
        const Deadline soon = Deadline::in(kLockTime / 2);
        std::optional<ImageCache> cache;
        try {
          cache.emplace(options);
          right += cache->put(user, image_of(user)) && !soon.passed() ? 1 : 0;
        } catch (const IoError& error) {
          ADD_FAILURE() << error.what();
        }
        together.arrive_and_wait();  // It is in use all the time.
      }
    });
  }
  users.clear();
  EXPECT_EQ(right.load(), kUsers * 50);
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
