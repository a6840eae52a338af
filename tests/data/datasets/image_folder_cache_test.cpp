// ImageFolder with a cache: the same numbers, from memory in the second epoch, whoever is killed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "lockstep/base/abandoned_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/data/datasets/image_folder_dataset.h"
#include "lockstep/data/loader/data_loader.h"
#include "tests/data/datasets/image_files.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

class ImageFolderCache : public ::testing::Test {
 protected:
  ImageFolderCache() {
    write_image_files(root());
    std::filesystem::create_directory(folder_.file("cache"));
  }

  [[nodiscard]] std::string root() const { return folder_.file("images"); }
  [[nodiscard]] ImageReading with(CachePlace place) const {
    return {.cache = place,
            .cache_folder = place == CachePlace::kDisk ? folder_.file("cache") : "",
            .cache_shorter_side = 0};
  }
  [[nodiscard]] ImageFolder images(const ImageReading& reading) const {
    return {index_image_folder(root()), random_crops_of_8(), reading};
  }
  [[nodiscard]] static DataLoader loader_of(const ImageFolder& images, int workers) {
    return DataLoader(images, {.batch_size = 5,
                               .sampler = DistributedSampler(images.size(), 1, 0, {.seed = 3}),
                               .num_workers = workers});
  }
  static std::vector<Sample> epoch_of(DataLoader& loader) {
    std::vector<Sample> batches;
    for (auto& batch : loader) {
      batches.push_back({batch.data.clone(), batch.target.clone()});
    }
    return batches;
  }

  test::TemporaryFolder folder_;
};

bool are_equal(const std::vector<Sample>& got, const std::vector<Sample>& expected) {
  return std::ranges::equal(got, expected, [](const Sample& a, const Sample& b) {
    return a.data.equal(b.data) && a.target.equal(b.target);
  });
}

TEST_F(ImageFolderCache, GivesTheSameBatchesAsWithoutIt) {
  DataLoader plain = loader_of(images({}), 0);
  const std::array expected = {epoch_of(plain), epoch_of(plain)};
  ASSERT_EQ(expected[0].size(), 3U);
  for (const CachePlace place : {CachePlace::kRam, CachePlace::kDisk}) {
    for (const int workers : {0, 3}) {
      DataLoader cached = loader_of(images(with(place)), workers);
      for (const auto& epoch : expected) {
        EXPECT_TRUE(are_equal(epoch_of(cached), epoch)) << workers << " workers";
      }
    }
  }
}

TEST_F(ImageFolderCache, TheSecondEpochReadsNoFile) {
  DataLoader plain = loader_of(images({}), 0);
  (void)epoch_of(plain);
  const auto expected = epoch_of(plain);
  for (const CachePlace place : {CachePlace::kRam, CachePlace::kDisk}) {
    DataLoader cached = loader_of(images(with(place)), 2);
    (void)epoch_of(cached);
    std::filesystem::rename(root(), folder_.file("hidden"));
    EXPECT_TRUE(are_equal(epoch_of(cached), expected));
    std::filesystem::rename(folder_.file("hidden"), root());
  }
}

TEST_F(ImageFolderCache, PixelsWithoutATransformAreTheSame) {
  const ImageFolder plain(index_image_folder(root()));
  const ImageFolder cached(index_image_folder(root()), with(CachePlace::kRam));
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (std::int64_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(cached.get(i).data.equal(plain.get(i).data)) << i;
    }
  }
}

TEST_F(ImageFolderCache, ReducedImagesAreThoseOfResizeBeforeAll) {
  ImageReading reduced = with(CachePlace::kRam);
  reduced.cache_shorter_side = 12;
  const ImageFolder cached(index_image_folder(root()), Compose({ToTensor{}}), reduced);
  const ImageFolder resized(index_image_folder(root()), Compose({Resize{.size = 12}, ToTensor{}}));
  const ImageFolder plain(index_image_folder(root()), Compose({ToTensor{}}));
  int smaller = 0;
  for (std::int64_t i = 0; i < plain.size(); ++i) {
    const at::Tensor whole = plain.get(i).data;
    const bool stays = std::min(whole.size(1), whole.size(2)) <= 12;
    smaller += stays ? 0 : 1;
    EXPECT_TRUE(cached.get(i).data.equal(stays ? whole : resized.get(i).data)) << i;
  }
  EXPECT_GT(smaller, 3);
}

// Each round ranks are killed after another number of images; what they leave must be right.
TEST_F(ImageFolderCache, RanksKilledWhileTheyFillItLeaveRightImages) {
  DataLoader plain = loader_of(images({}), 0);
  const auto expected = epoch_of(plain);
  for (int round = 0; round < 12; ++round) {
    Pipe progress = make_pipe();
    std::vector<pid_t> ranks;
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      ranks.push_back(test::fork_child([&, rank]() -> int {
        const ImageFolder own = images(with(CachePlace::kDisk));
        while (true) {
          for (std::int64_t i = 0; i < own.size(); ++i) {
            (void)own.get((i * 5 + rank) % own.size());
            write_all(progress.write_end.get(), ".");
          }
        }
      }));
    }
    progress.write_end.reset();
    char read = 0;
    for (int i = 0; i <= round * 3; ++i) {
      ASSERT_EQ(::read(progress.read_end.get(), &read, 1), 1);
    }
    for (const pid_t rank : ranks) {
      ::kill(rank, SIGKILL);
    }
    for (const pid_t rank : ranks) {
      test::wait_for(rank);
    }
    {
      DataLoader cached = loader_of(images(with(CachePlace::kDisk)), 2);
      EXPECT_TRUE(are_equal(epoch_of(cached), expected)) << round;
    }
    if (round % 2 == 1) {  // Else the next ones go on with what is there.
      std::filesystem::remove_all(folder_.file("cache"));
      std::filesystem::create_directory(folder_.file("cache"));
    }
  }
}

// Leaves what a rank that was killed had in memory. Returns its path.
std::string cache_of_a_killed_rank(const std::string& root) {
  Pipe names = make_pipe();
  const pid_t rank = test::fork_child([&]() -> int {
    FolderCache cache(index_image_folder(root), {.place = CachePlace::kRam});
    (void)cache.get(3);
    write_all(names.write_end.get(), cache.cache().path());
    ::pause();
    return 0;
  });
  std::array<char, 256> path{};
  const auto length = ::read(names.read_end.get(), path.data(), path.size());
  ::kill(rank, SIGKILL);
  test::wait_for(rank);
  return {path.data(), static_cast<std::size_t>(std::max<::ssize_t>(length, 0))};
}

// What is in memory outlives whoever is killed, until the next user of any cache removes it. That
// may be another test, which runs at the same time: then it is done again.
TEST_F(ImageFolderCache, MemoryOfAKilledRankIsTakenOverOrGivenBack) {
  for (int tries = 0;; ++tries) {
    ASSERT_LT(tries, 100);
    const std::string path = cache_of_a_killed_rank(root());
    const UniqueFd left(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!left) {
      continue;
    }
    FolderCache same(index_image_folder(root()), {.place = CachePlace::kRam});
    ASSERT_EQ(same.cache().path(), path);
    if (is_still_named(left.get(), path)) {
      EXPECT_EQ(same.get(3).own.pixels, nullptr);
      break;
    }
  }
  const std::string path = cache_of_a_killed_rank(root());
  {
    const FolderCache same(index_image_folder(root()), {.place = CachePlace::kRam});
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST_F(ImageFolderCache, AChangedFileIsReadAgain) {
  {
    DataLoader cached = loader_of(images(with(CachePlace::kDisk)), 0);
    (void)epoch_of(cached);
  }
  write_file(root() + "/c/21.ppm", "P6 1 1 255\nabc");
  DataLoader plain = loader_of(images({}), 0);
  DataLoader cached = loader_of(images(with(CachePlace::kDisk)), 0);
  EXPECT_TRUE(are_equal(epoch_of(cached), epoch_of(plain)));
}

// It has the same size and the date of the file before it.
TEST_F(ImageFolderCache, AChangedFileIsReadAgainAlthoughItLooksTheSame) {
  const std::string file = root() + "/c/21.ppm";
  {
    DataLoader cached = loader_of(images(with(CachePlace::kDisk)), 0);
    (void)epoch_of(cached);
  }
  const auto date = std::filesystem::last_write_time(file);
  std::string content = read_file(file);
  for (std::size_t i = content.size() / 2; i < content.size(); ++i) {
    content[i] = static_cast<char>(~content[i]);
  }
  write_file(file + ".new", content);
  std::filesystem::rename(file + ".new", file);
  std::filesystem::last_write_time(file, date);
  DataLoader plain = loader_of(images({}), 0);
  DataLoader cached = loader_of(images(with(CachePlace::kDisk)), 0);
  EXPECT_TRUE(are_equal(epoch_of(cached), epoch_of(plain)));
}

TEST_F(ImageFolderCache, SaysWhatIsInIt) {
  const ImageFolder cached = images(with(CachePlace::kDisk));
  EXPECT_THAT(cached.summary(), AllOf(HasSubstr("12 images in 3 classes"),
                                      HasSubstr("image cache '" + folder_.file("cache")),
                                      HasSubstr("in use"), Not(HasSubstr("keeps no more"))));
}

TEST_F(ImageFolderCache, OptionsOfACacheThatIsNotThereAreRefused) {
  EXPECT_THAT([&] { (void)images({.cache_folder = "/tmp"}); },
              ThrowsMessage<UsageError>(HasSubstr("given without a cache")));
  EXPECT_THAT([&] { (void)images({.cache = CachePlace::kRam, .cache_shorter_side = -3}); },
              ThrowsMessage<UsageError>(HasSubstr("cache_shorter_side is -3")));
  EXPECT_THAT([&] { (void)images({.max_bad = -2}); },
              ThrowsMessage<UsageError>(HasSubstr("max_bad is -2")));
}

}  // namespace
}  // namespace lockstep::data
