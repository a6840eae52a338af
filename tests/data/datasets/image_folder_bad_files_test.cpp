// ImageFolder over files that are no images: counted, listed, replaced, and no more memory.
#include <gmock/gmock.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/image_folder_dataset.h"
#include "lockstep/data/loader/data_loader.h"
#include "tests/data/datasets/image_files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

// A JPEG's header with another size.
std::string jpeg_of_size(int width, int height) {
  std::string file = seed_file("jpeg/gray.jpg");
  const std::size_t frame = file.find("\xff\xc0");
  const auto put = [&](std::size_t at, int value) {
    file[frame + at] = static_cast<char>(value >> 8);
    file[frame + at + 1] = static_cast<char>(value);
  };
  put(5, height);
  put(7, width);
  return file;
}

// Twelve good images, and among them one bad file of each kind.
class ImageFolderBadFiles : public ::testing::Test {
 protected:
  ImageFolderBadFiles() {
    write_image_files(root());
    const std::string jpeg = seed_file("jpeg/420.jpg");
    write_file(root() + "/a/00-truncated.jpg", jpeg.substr(0, jpeg.size() / 2));
    write_file(root() + "/a/11-empty.png", "");
    write_file(root() + "/b/00-text.jpg", "this is no image at all");
    write_file(root() + "/b/00-huge.jpg", jpeg_of_size(60'000, 60'000));
    write_file(root() + "/b/99-huge.ppm", "P6 60000 60000 255\nabc");
    ::symlink("nowhere", (root() + "/c/00-unreadable.jpg").c_str());
    ::mkfifo((root() + "/c/99-pipe.jpg").c_str(), 0600);
  }

  [[nodiscard]] std::string root() const { return folder_.file("images"); }
  [[nodiscard]] ImageFolder images(std::int64_t max_bad,
                                   CachePlace cache = CachePlace::kNone) const {
    return {index_image_folder(root()), random_crops_of_8(),
            ImageReading{.cache = cache, .max_bad = max_bad}};
  }
  [[nodiscard]] bool is_bad(const ImageFolder& set, std::int64_t i) const {
    return set.path(i).find('-', root().size()) != std::string::npos;
  }

  static constexpr std::int64_t kBad = 7;
  test::TemporaryFolder folder_;
};

TEST_F(ImageFolderBadFiles, AreReplacedByTheNextGoodOneWithItsClass) {
  const ImageFolder plain(index_image_folder(root()), ImageReading{.max_bad = -1});
  const ImageFolder transformed = images(-1);
  ASSERT_EQ(plain.size(), 12 + kBad);
  for (std::int64_t i = 0; i < plain.size(); ++i) {
    std::int64_t good = i;
    while (is_bad(plain, good)) {
      good = (good + 1) % plain.size();
    }
    EXPECT_TRUE(plain.get(i).data.equal(plain.get(good).data)) << plain.path(i);
    EXPECT_TRUE(plain.get(i).target.equal(plain.get(good).target)) << plain.path(i);
    const auto batch = transformed.get_batch(std::vector<std::int64_t>{i}, {});
    ASSERT_TRUE(batch);
    EXPECT_TRUE(batch->data[0].equal(transformed.get(i).data)) << plain.path(i);
    for (const at::Tensor& target : {transformed.get(i).target, batch->target[0]}) {
      EXPECT_TRUE(target.equal(plain.get(good).target)) << plain.path(i);
    }
  }
  EXPECT_EQ(plain.bad_files().count(), kBad);
}

// A line of pixels, which Resize makes as wide as it is told and far too long.
TEST_F(ImageFolderBadFiles, AreThoseWhoseResultHasNoRoom) {
  write_file(root() + "/a/00-line.ppm", "P6 2000000 1 255\n" + std::string(6'000'000, 'x'));
  const Resize resize{.size = 256};
  for (const auto& transforms :
       {std::vector<Transform>{resize, ToTensor{}},
        {resize, Lambda{[](Image image, SampleRandom&) { return image; }}, ToTensor{}},
        {resize, RandomHorizontalFlip{.p = 1}, ColorJitter{}, ToTensor{}}}) {
    const ImageFolder set(index_image_folder(root()), Compose(transforms),
                          ImageReading{.max_bad = -1});
    ASSERT_TRUE(is_bad(set, 0));
    EXPECT_EQ(set.get(0).data.size(1), 256);
    EXPECT_THAT(set.bad_files().summary(),
                HasSubstr("00-line.ppm': resizing it gives 512000000x256 pixels"));
  }
  const ImageFolder cropped(index_image_folder(root()),
                            Compose({resize, CenterCrop{.size = 224}, ToTensor{}}),
                            ImageReading{.max_bad = 0});
  EXPECT_EQ(cropped.get(0).data.size(1), 224);
}

TEST_F(ImageFolderBadFiles, AreListedInOneSummary) {
  for (const CachePlace cache : {CachePlace::kNone, CachePlace::kRam}) {
    const ImageFolder set = images(-1, cache);
    EXPECT_EQ(set.bad_files().summary(), "");
    DataLoader loader(set, {.batch_size = 4, .num_workers = 2});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::int64_t samples = 0;
      for (auto& batch : loader) {
        samples += batch.data.size(0);
      }
      EXPECT_EQ(samples, 12 + kBad);
    }
    EXPECT_THAT(
        set.bad_files().summary(),
        AllOf(HasSubstr("7 files cannot be read"), HasSubstr("a/00-truncated.jpg'"),
              HasSubstr("a/11-empty.png': the file has 0 bytes"),
              HasSubstr("b/00-text.jpg': the file starts with"), HasSubstr("b/00-huge.jpg': "),
              HasSubstr("b/99-huge.ppm': "), HasSubstr("60000x60000"),
              HasSubstr("c/00-unreadable.jpg': opening it: No such"),
              HasSubstr("c/99-pipe.jpg': it is a folder, pipe or device")));
    EXPECT_THAT(set.summary(), AllOf(HasSubstr("19 images"), HasSubstr("7 files cannot be read")));
  }
}

// Numbers of a sample follow from seed, epoch and index, also where another image takes its place.
TEST_F(ImageFolderBadFiles, BatchesDoNotDependOnWorkersOrTheCache) {
  const auto epoch = [&](int workers, CachePlace cache) {
    DataLoader loader(images(-1, cache),
                      {.batch_size = 5,
                       .sampler = DistributedSampler(12 + kBad, 1, 0, {.seed = 4}),
                       .num_workers = workers});
    std::vector<at::Tensor> all;
    for (auto& batch : loader) {
      all.push_back(batch.data.clone());
      all.push_back(batch.target.clone());
    }
    return all;
  };
  const auto expected = epoch(0, CachePlace::kNone);
  for (const CachePlace cache : {CachePlace::kNone, CachePlace::kRam}) {
    for (const int workers : {0, 3}) {
      EXPECT_TRUE(std::ranges::equal(epoch(workers, cache), expected,
                                     [](const auto& a, const auto& b) { return a.equal(b); }))
          << workers;
    }
  }
}

TEST_F(ImageFolderBadFiles, MoreThanMaxBadAreAnErrorThatListsThem) {
  DataLoader enough(images(kBad), {.batch_size = 4});
  for (auto& batch : enough) {
    (void)batch;
  }
  const ImageFolder few = images(kBad - 1);
  const auto read_all = [&] {
    for (std::int64_t i = 0; i < few.size(); ++i) {
      (void)few.get(i);
    }
  };
  EXPECT_THAT(read_all, ThrowsMessage<IoError>(AllOf(HasSubstr("7 files cannot be read"),
                                                     HasSubstr("expected at most 6 (max_bad)"))));
}

// A transform that cannot take an image is the caller's error, not the file's.
TEST_F(ImageFolderBadFiles, AnImageTooSmallForACropIsNotOne) {
  const ImageFolder set(index_image_folder(root()), Compose({RandomCrop{.size = 500}, ToTensor{}}),
                        ImageReading{.max_bad = -1});
  EXPECT_THROW((void)set.get(1), UsageError);
  EXPECT_EQ(set.bad_files().count(), 0);
}

// Too many open files, or a function of the user's that cannot write: the image is there again once
// the trouble is over.
TEST_F(ImageFolderBadFiles, TroubleOfTheProcessIsNotOne) {
  for (const CachePlace cache : {CachePlace::kNone, CachePlace::kRam}) {
    const ImageFolder set = images(-1, cache);
    std::int64_t good = 0;
    while (is_bad(set, good)) {
      ++good;
    }
    std::string error;
    {
      const NoMoreFiles limit;
      try {
        (void)set.get(good);
      } catch (const IoError& caught) {
        error = caught.what();
      }
    }
    EXPECT_THAT(error, AllOf(HasSubstr(set.path(good)), HasSubstr("Too many open files")));
    EXPECT_EQ(set.bad_files().count(), 0);
    EXPECT_TRUE(set.get(good).data.equal(images(-1).get(good).data));
  }
}

TEST_F(ImageFolderBadFiles, AFunctionThatFailsIsNotOne) {
  const auto fail = [](Image, SampleRandom&) -> Image { throw IoError("the log is full"); };
  const ImageFolder set(index_image_folder(root()), Compose({Lambda{fail}, ToTensor{}}),
                        ImageReading{.max_bad = -1});
  EXPECT_THAT([&] { (void)set.get(1); },
              ThrowsMessage<IoError>(HasSubstr("Lambda: the log is full")));
  EXPECT_FALSE(is_bad(set, 1));
  EXPECT_EQ(set.bad_files().count(), 0);
}

// Large blocks, such as pixels, are counted apart.
std::size_t memory_in_use() {
  const auto heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

TEST(ImageFolderManyBadFiles, MemoryStaysFlatOver100000) {
  constexpr std::int64_t kFiles = 100'000;
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("a"));
  const std::string jpeg = seed_file("jpeg/420.jpg");
  const std::array<std::string, 4> kinds = {jpeg.substr(0, jpeg.size() / 2), "", "GIF89a, renamed",
                                            jpeg_of_size(60'000, 60'000)};
  ImageFolderIndex index{.root = folder.file("."), .classes = {"a"}};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    write_file(folder.file("a/" + std::to_string(kind) + ".jpg"), kinds[kind]);
  }
  write_file(folder.file("a/good.jpg"), jpeg);
  for (std::int64_t i = 0; i < kFiles; ++i) {  // Paths that differ, of the same few files.
    index.images.push_back(
        {"a/" + std::string(static_cast<std::size_t>(i % 50), '/') + std::to_string(i % 4) + ".jpg",
         0});
  }
  index.images.push_back({"a/good.jpg", 0});
  const ImageFolder set(std::move(index), random_crops_of_8(), ImageReading{.max_bad = -1});
  for (std::int64_t i = 0; i < 1000; ++i) {
    (void)set.get(kFiles - 1 - i);
  }
  const std::size_t before = memory_in_use();
  for (std::int64_t i = 1000; i < kFiles; ++i) {
    (void)set.get(kFiles - 1 - i);
  }
  EXPECT_EQ(set.bad_files().count(), kFiles);
  EXPECT_LT(memory_in_use(), before + 100'000);  // A byte for each; paths would be some 10 MB.
}

}  // namespace
}  // namespace lockstep::data
