// The cache on a disk that is too small, or that others fill: an answer each time, never SIGBUS.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/data/cache/image_cache.h"
#include "tests/data/files.h"
#include "tests/data/pictures.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::int64_t kPictures = 64;

Image large_picture(std::int64_t index) {  // Nearly 1 MiB, with rows that say which it is.
  static const Image base = test_picture({512, 682});
  Image picture = copy_of(base);
  for (std::int64_t y = 0; y < picture.height; y += 16) {
    std::memset(picture.row(y), static_cast<int>(index), picture.row_bytes());
  }
  return picture;
}

// Runs `body` in a process that sees a disk of `size` (as mount says it) in the folder; what is not
// as it says there is printed and makes the result differ from 0.
int on_small_disk(const std::string& size, const std::function<bool(const std::string&)>& body) {
  const test::TemporaryFolder folder;
  const std::string disk = folder.file(".");
  return test::run_in_child([&] {
    // Who is not root may mount in a user namespace.
    const int spaces = CLONE_NEWNS | (::geteuid() == 0 ? 0 : CLONE_NEWUSER);
    if (::unshare(spaces) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("small", disk.c_str(), "tmpfs", 0, ("size=" + size).c_str()) != 0) {
      std::perror("a small disk");
      return 2;
    }
    try {
      return body(disk) ? 0 : 1;
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 3;
    }
  });
}

ImageCacheOptions options_on(const std::string& disk, std::uint64_t bytes) {
  return {.path = disk + "/cache", .key = 7, .images = kPictures, .bytes = bytes};
}

// Writes until the disk takes no more.
void fill(const std::string& disk) {
  const UniqueFd other(::open((disk + "/other").c_str(), O_WRONLY | O_CREAT, 0600));
  const std::string block(4096, 'x');
  while (::write(other.get(), block.data(), block.size()) > 0) {
  }
}

bool has_right(ImageCache& cache, std::int64_t index) {
  const auto view = cache.get(index);
  const Image expected = large_picture(index);
  return view && view->size() == ImageView(expected).size() &&
         std::memcmp(view->pixels, expected.pixels.get(), expected.bytes()) == 0;
}

TEST(FullDisk, IsRefusedBeforeTheFirstImageAndLeavesNothing) {
  EXPECT_EQ(on_small_disk("2m",
                          [](const std::string& disk) {
                            try {
                              const ImageCache cache(options_on(disk, 8 * kMiB));
                            } catch (const IoError& error) {
                              const bool said =
                                  std::string(error.what()).find("there is no room") !=
                                  std::string::npos;
                              return said && ::access((disk + "/cache").c_str(), F_OK) != 0;
                            }
                            return false;
                          }),
            0);
}

TEST(FullDisk, WhatWasReservedCanBeWrittenAlthoughOthersFillTheRest) {
  EXPECT_EQ(on_small_disk("16m",
                          [](const std::string& disk) {
                            ImageCache cache(options_on(disk, 8 * kMiB));
                            fill(disk);
                            bool right = true;
                            for (std::int64_t i = 0; i < 8; ++i) {
                              right =
                                  right && cache.put(i, large_picture(i)) && has_right(cache, i);
                            }
                            return right;
                          }),
            0);
}

TEST(FullDisk, NoMoreIsKeptWhereItCannotGrow) {
  EXPECT_EQ(on_small_disk("16m",
                          [](const std::string& disk) {
                            ImageCache cache(options_on(disk, 4 * kMiB));
                            bool right = cache.why_full().empty();
                            std::int64_t kept = 0;
                            while (kept < kPictures && cache.put(kept, large_picture(kept))) {
                              ++kept;
                            }
                            right = right && kept == 4 && !cache.get(kept);
                            right = right && !cache.put(kept + 1, test_picture({2, 2}));
                            for (std::int64_t i = 0; i < kept; ++i) {
                              right = right && has_right(cache, i);
                            }
                            std::printf("%s\n", cache.why_full().c_str());
                            return right && cache.why_full().find(
                                                "there is no room for 64.0 MiB "
                                                "more") != std::string::npos;
                          }),
            0);
}

// Two processes, of which one meets the end of the disk: what is there stays right for both.
TEST(FullDisk, ProcessesThatMeetItKeepWhatIsThere) {
  EXPECT_EQ(on_small_disk("100m",
                          [](const std::string& disk) {
                            const auto fill_cache = [&] {
                              ImageCache cache(options_on(disk, 40 * kMiB));
                              for (std::int64_t i = 0; i < kPictures; ++i) {
                                (void)cache.put(i, large_picture(i));
                              }
                              std::int64_t right = 0;
                              for (std::int64_t i = 0; i < kPictures; ++i) {
                                if (cache.get(i)) {
                                  if (!has_right(cache, i)) {
                                    return 1;
                                  }
                                  ++right;
                                }
                              }
                              // Both may have written the same ones: half of the 40 MiB.
                              return right >= 20 ? 0 : 2;
                            };
                            const pid_t other = test::fork_child(fill_cache);
                            const int mine = fill_cache();
                            return test::wait_for(other) == 0 && mine == 0;
                          }),
            0);
}

bool has_header(const std::string& path) {
  const std::string file = read_file(path, kCacheHeaderBytes);
  return read_cache_header(file_bytes(file), 7, kPictures).has_value();
}

std::int64_t reserved_bytes(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 ? status.st_blocks * 512 : 0;
}

// Runs `body` until `path` has more than so many bytes, and kills it there.
void kill_when_larger(const std::string& path, std::uint64_t bytes,
                      const std::function<int()>& body) {
  const pid_t child = test::fork_child(body);
  const Deadline deadline = Deadline::in(std::chrono::seconds(30));
  while (reserved_bytes(path) <= static_cast<std::int64_t>(bytes) && !deadline.passed()) {
  }
  ::kill(child, SIGKILL);
  test::wait_for(child);
}

bool can_be_filled(const ImageCacheOptions& options, std::int64_t images) {
  ImageCache cache(options);
  bool right = true;
  for (std::int64_t i = 0; i < images; ++i) {
    right = right && (has_right(cache, i) || cache.put(i, large_picture(i))) && has_right(cache, i);
  }
  return right;
}

// Memory takes its time to be reserved.
TEST(KilledCache, IsMadeAnewIfItHadNotBeenMade) {
  EXPECT_EQ(on_small_disk("150m",
                          [](const std::string& disk) {
                            const ImageCacheOptions options = options_on(disk, 64 * kMiB);
                            int unfinished = 0;
                            bool right = true;
                            for (std::uint64_t round = 0; round < 4; ++round) {
                              ::unlink(options.path.c_str());
                              kill_when_larger(options.path, round * kMiB, [&] {
                                const ImageCache cache(options);
                                return ::pause();
                              });
                              unfinished += has_header(options.path) ? 0 : 1;
                              right = right && can_be_filled(options, 6);
                            }
                            std::printf("killed while it was made: %d of 4\n", unfinished);
                            return right && unfinished > 0;
                          }),
            0);
}

TEST(KilledCache, CanGrowAgainIfItHadBegunTo) {
  EXPECT_EQ(on_small_disk("150m",
                          [](const std::string& disk) {
                            const ImageCacheOptions options = options_on(disk, 4 * kMiB);
                            int unfinished = 0;
                            bool right = true;
                            for (std::uint64_t round = 0; round < 4; ++round) {
                              ::unlink(options.path.c_str());
                              kill_when_larger(options.path, (5 + round) * kMiB, [&] {
                                ImageCache cache(options);
                                for (std::int64_t i = 0; i < 6; ++i) {
                                  cache.put(i, large_picture(i));
                                }
                                return ::pause();
                              });
                              // What the header promises was there before the last step.
                              const std::string file = read_file(options.path, kCacheHeaderBytes);
                              const auto header = read_cache_header(file_bytes(file), 7, kPictures);
                              right = right && header;
                              unfinished += header && header->capacity < 6 * kMiB ? 1 : 0;
                              right = right && can_be_filled(options, 6);
                            }
                            std::printf("killed while it grew: %d of 4\n", unfinished);
                            return right && unfinished > 0;
                          }),
            0);
}

}  // namespace
}  // namespace lockstep::data
