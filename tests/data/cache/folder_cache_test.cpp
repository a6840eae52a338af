#include "lockstep/data/cache/folder_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/transforms/compose.h"
#include "tests/data/files.h"
#include "tests/data/pictures.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int kFolderImages = 6;

std::string ppm_of(const Image& image) {
  return "P6 " + std::to_string(image.width) + " " + std::to_string(image.height) + " 255\n" +
         pixels_text(image);
}

// Six images of two classes, and a folder for the cache.
class FolderCacheTest : public ::testing::Test {
 protected:
  FolderCacheTest() {
    for (int i = 0; i < kFolderImages; ++i) {
      const std::string name = i % 2 == 0 ? "even" : "odd";
      std::filesystem::create_directories(root() + "/" + name);
      write_file(root() + "/" + name + "/" + std::to_string(i) + ".ppm",
                 ppm_of(test_picture({30 + i, 40})));
    }
    std::filesystem::create_directory(folder_.file("cache"));
  }

  [[nodiscard]] std::string root() const { return folder_.file("images"); }
  [[nodiscard]] FolderCacheOptions on_disk() const {
    return {.place = CachePlace::kDisk, .folder = folder_.file("cache")};
  }
  [[nodiscard]] FolderCache open(const FolderCacheOptions& options) const {
    return {index_image_folder(root()), options};
  }
  [[nodiscard]] Image decoded(std::int64_t index) const {
    const auto images = index_image_folder(root()).images;
    const std::string path = root() + "/" + images[static_cast<std::size_t>(index)].path;
    return decode_image(file_bytes(read_file(path)));
  }
  [[nodiscard]] std::vector<std::string> cache_files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.file("cache"))) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  test::TemporaryFolder folder_;
};

TEST_F(FolderCacheTest, SecondReadsComeFromTheCacheWithTheSamePixels) {
  for (const auto& options : {on_disk(), FolderCacheOptions{.place = CachePlace::kRam}}) {
    FolderCache cache = open(options);
    for (int i = 0; i < kFolderImages; ++i) {
      const CachedImage first = cache.get(i);
      EXPECT_NE(first.own.pixels, nullptr);
      EXPECT_EQ(view_text(first.view), pixels_text(decoded(i)));
      const CachedImage second = cache.get(i);
      EXPECT_EQ(second.own.pixels, nullptr);
      EXPECT_EQ(view_text(second.view), pixels_text(decoded(i)));
    }
  }
}

TEST_F(FolderCacheTest, TransformsGiveTheSameNumbersWithAndWithoutIt) {
  const Compose compose({RandomResizedCrop{.size = 8}, RandomHorizontalFlip{}, ToTensor{}});
  FolderCache cache = open(on_disk());
  for (const std::uint64_t epoch : {0U, 1U}) {
    for (int i = 0; i < kFolderImages; ++i) {
      const SampleRandom random(1, epoch, static_cast<std::uint64_t>(i));
      const FloatImage expected = compose.apply(decoded(i), random);
      const FloatImage got = compose.apply(cache.get(i).view, random);
      EXPECT_TRUE(std::ranges::equal(got.span(), expected.span()));
    }
  }
}

TEST_F(FolderCacheTest, AnotherRunFindsWhatIsThere) {
  {
    (void)open(on_disk()).get(2);
  }
  FolderCache cache = open(on_disk());
  EXPECT_EQ(cache.get(2).own.pixels, nullptr);
  EXPECT_NE(cache.get(3).own.pixels, nullptr);
}

TEST_F(FolderCacheTest, AChangedFolderHasANewCacheAndTheOldOneGoes) {
  {
    (void)open(on_disk()).get(2);
  }
  const auto before = cache_files();
  ASSERT_EQ(before.size(), 1U);
  write_file(root() + "/even/2.ppm", ppm_of(test_picture({5, 5})));
  {
    FolderCache cache = open(on_disk());
    EXPECT_NE(cache.get(1).own.pixels, nullptr);
    EXPECT_EQ(cache.get(1).view.size(), Size(5));
  }
  ASSERT_EQ(cache_files().size(), 1U);
  EXPECT_NE(cache_files(), before);
}

TEST_F(FolderCacheTest, TheKeyChangesWithPathsSizesAndDates) {
  const auto key = [&] { return folder_key(index_image_folder(root())); };
  const std::uint64_t before = key();
  EXPECT_EQ(key(), before);
  const std::string file = root() + "/odd/1.ppm";
  const auto touch = [&](std::int64_t seconds, std::int64_t nanoseconds) {
    const timespec time{.tv_sec = seconds, .tv_nsec = nanoseconds};
    const timespec times[2] = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  };
  touch(5, 0);
  const std::uint64_t dated = key();
  EXPECT_NE(dated, before);
  touch(5, 7);
  const std::uint64_t touched = key();
  EXPECT_NE(touched, dated);
  const auto changed = [&] {
    struct stat status{};
    EXPECT_EQ(::stat(file.c_str(), &status), 0);
    return std::pair(status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
  };
  const auto first = changed();
  while (changed() == first) {  // As long as before and dated back; the clock has its steps.
    write_file(file, ppm_of(test_picture({31, 40})));
    touch(5, 7);
  }
  EXPECT_NE(key(), touched);
  const std::uint64_t written = key();
  std::filesystem::rename(file, root() + "/odd/9.ppm");
  EXPECT_NE(key(), written);
}

TEST_F(FolderCacheTest, TheKeyChangesWithTheDecoders) {
  const ImageFolderIndex index = index_image_folder(root());
  EXPECT_EQ(folder_key(index), folder_key(index, decoder_versions()));
  EXPECT_NE(folder_key(index), folder_key(index, "libjpeg-turbo 1, libpng 1"));
}

TEST_F(FolderCacheTest, ImagesCanBeReduced) {
  FolderCacheOptions options = on_disk();
  options.shorter_side = 10;
  FolderCache cache = open(options);
  EXPECT_EQ(cache.get(0).view.size(), Size(10, 13));
  EXPECT_EQ(cache.get(0).view.size(), Size(10, 13));
  const Compose reduce({Resize{.size = 10}, ToTensor{}});
  const Compose plain({ToTensor{}});
  const FloatImage expected = reduce.apply(decoded(0), {1, 0, 0});
  const FloatImage got = plain.apply(cache.get(0).view, {1, 0, 0});
  EXPECT_TRUE(std::ranges::equal(got.span(), expected.span()));
  options.shorter_side = 100;  // They are smaller, and stay.
  EXPECT_EQ(open(options).get(0).view.size(), Size(30, 40));
}

TEST_F(FolderCacheTest, ABrokenFileIsNamedEachTime) {
  write_file(root() + "/even/2.ppm", "P6 40 30 255\ncut off");
  FolderCache cache = open(on_disk());
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT([&] { (void)cache.get(1); }, ThrowsMessage<IoError>(HasSubstr("even/2.ppm")));
  }
  EXPECT_EQ(view_text(cache.get(0).view), pixels_text(decoded(0)));
}

TEST_F(FolderCacheTest, MemoryIsGivenBackWithTheLastUser) {
  std::string path;
  {
    FolderCache cache = open({.place = CachePlace::kRam});
    (void)cache.get(0);
    path = cache.cache().path();
    EXPECT_THAT(path, HasSubstr("/dev/shm/"));
    EXPECT_EQ(::access(path.c_str(), F_OK), 0);
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

// Becomes another user: root can be anybody, others are root in a namespace of their own.
void become_another_user() {
  const uid_t user = ::geteuid();
  if (user == 0) {
    ASSERT_EQ(::setresuid(65534, 65534, 65534), 0);
    return;
  }
  ASSERT_EQ(::unshare(CLONE_NEWUSER), 0);
  write_file("/proc/self/uid_map", "0 " + std::to_string(user) + " 1\n");
}

TEST_F(FolderCacheTest, UsersHaveTheirOwnMemory) {
  FolderCache mine = open({.place = CachePlace::kRam});
  (void)mine.get(0);
  std::filesystem::permissions(folder_.file("."), std::filesystem::perms(0755));
  EXPECT_EQ(test::run_in_child([&] {
              become_another_user();
              FolderCache other = open({.place = CachePlace::kRam});
              const bool differs = other.cache().path() != mine.cache().path();
              return differs && view_text(other.get(0).view) == pixels_text(decoded(0)) ? 0 : 1;
            }),
            0);
  EXPECT_EQ(::access(mine.cache().path().c_str(), F_OK), 0);
}

TEST_F(FolderCacheTest, TheDiskNeedsAFolder) {
  EXPECT_THAT([&] { (void)open({.place = CachePlace::kDisk}); },
              ThrowsMessage<UsageError>(HasSubstr("there is no folder")));
  EXPECT_THROW((void)open({.place = CachePlace::kDisk, .folder = folder_.file("nowhere")}),
               IoError);
}

}  // namespace
}  // namespace lockstep::data
