#include "lockstep/data/datasets/image_folder_dataset.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/readers/tiny_imagenet.h"
#include "tests/data/files.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(ImageFolder, HasTheSamplesOfTorchvision) {
  const test::TemporaryFolder folder;
  test::run_python("data/datasets/image_folder.py", {folder.file("")});
  const ImageFolder images(index_image_folder(folder.file("images")));
  std::ifstream list(folder.file("list"));
  std::int64_t label = 0;
  std::int64_t sum = 0;
  std::string path;
  std::int64_t index = 0;
  while (list >> label >> sum && std::getline(list >> std::ws, path)) {
    ASSERT_LT(index, images.size());
    const Sample sample = images.get(index);
    EXPECT_EQ(images.path(index), folder.file("images/" + path));
    EXPECT_EQ(sample.target.item<std::int64_t>(), label) << path;
    EXPECT_EQ(sample.data.sum().item<std::int64_t>(), sum) << path;
    EXPECT_EQ(sample.data.size(2), 3);
    ++index;
  }
  EXPECT_EQ(index, 11);
  EXPECT_EQ(images.size(), 11);
}

TEST(ImageFolder, ABadFileIsNamed) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("a"));
  write_file(folder.file("a/1.jpg"), "");
  write_file(folder.file("a/2.jpg"), "GIF89a in disguise");
  const ImageFolder images(index_image_folder(folder.file(".")));
  EXPECT_THAT([&] { (void)images.get(0); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("/a/1.jpg'"), HasSubstr("has 0 bytes"))));
  EXPECT_THAT([&] { (void)images.get(1); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("/a/2.jpg'"), HasSubstr("is not JPEG"))));
  EXPECT_THAT([&] { (void)images.get(2); },
              ThrowsMessage<UsageError>(HasSubstr("ImageFolder: index 2 is out of range")));
}

// The index of Tiny-ImageNet's flat folder is one like others.
TEST(ImageFolder, ReadsTheValidationPartOfTinyImagenet) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("images"));
  std::string text;
  for (int i = 0; i < 4; ++i) {
    const std::string name = "val_" + std::to_string(i) + ".ppm";
    write_file(folder.file("images/" + name), "P6 1 1 255\n" + std::string(3, char(10 * i)));
    text += name + (i % 2 == 0 ? "\tn2" : "\tn1") + "\t0\t0\t1\t1\n";
  }
  write_file(folder.file("val_annotations.txt"), text);
  const ImageFolder images(index_tiny_imagenet_val(folder.path, {"n1", "n2"}));
  ASSERT_EQ(images.size(), 4);
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (std::int64_t i = 0; i < images.size(); ++i) {
    const Sample sample = images.get(i);
    found.emplace_back(sample.target.item<std::int64_t>(), sample.data.sum().item<std::int64_t>());
  }
  EXPECT_THAT(found, ::testing::ElementsAre(::testing::Pair(0, 30), ::testing::Pair(0, 90),
                                            ::testing::Pair(1, 0), ::testing::Pair(1, 60)));
}

// Four small pictures in two classes.
void write_pictures(const test::TemporaryFolder& folder) {
  std::filesystem::create_directory(folder.file("a"));
  std::filesystem::create_directory(folder.file("b"));
  for (int i = 0; i < 4; ++i) {
    std::string pixels = "P6 16 12 255\n";
    for (int byte = 0; byte < 16 * 12 * 3; ++byte) {
      pixels += static_cast<char>(byte * (i + 1) % 251);
    }
    write_file(folder.file((i < 2 ? "a/" : "b/") + std::to_string(i) + ".ppm"), pixels);
  }
}

const Compose& random_crops() {
  static const Compose kCrops({RandomResizedCrop{.size = 8}, RandomHorizontalFlip{}, ToTensor{}});
  return kCrops;
}

TEST(ImageFolder, RandomTransformsFollowSeedEpochAndIndexAlone) {
  const test::TemporaryFolder folder;
  write_pictures(folder);
  const ImageFolder images(index_image_folder(folder.file(".")), random_crops());
  const EpochSeed epoch{.seed = 7, .epoch = 3};
  const Sample sample = images.get_in_epoch(2, epoch);
  EXPECT_EQ(sample.data.sizes(), (std::vector<std::int64_t>{3, 8, 8}));
  EXPECT_EQ(sample.target.item<std::int64_t>(), 1);
  EXPECT_TRUE(images.get_in_epoch(2, epoch).data.equal(sample.data));
  EXPECT_FALSE(images.get_in_epoch(2, {.seed = 7, .epoch = 4}).data.equal(sample.data));
  EXPECT_FALSE(images.get_in_epoch(2, {.seed = 8, .epoch = 3}).data.equal(sample.data));
}

TEST(ImageFolder, ABatchHasTheSamplesItIsMadeOf) {
  const test::TemporaryFolder folder;
  write_pictures(folder);
  const ImageFolder images(index_image_folder(folder.file(".")), random_crops());
  const EpochSeed epoch{.seed = 1, .epoch = 2};
  const std::vector<std::int64_t> indices{3, 0, 2};
  const auto batch = images.get_batch(indices, epoch);
  ASSERT_TRUE(batch);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Sample sample = images.get_in_epoch(indices[i], epoch);
    EXPECT_TRUE(batch->data[static_cast<std::int64_t>(i)].equal(sample.data)) << i;
    EXPECT_TRUE(batch->target[static_cast<std::int64_t>(i)].equal(sample.target)) << i;
  }
  const ImageFolder any_size(index_image_folder(folder.file(".")), Compose({ToTensor{}}));
  EXPECT_FALSE(any_size.get_batch(indices, epoch));
  EXPECT_EQ(any_size.get(1).data.sizes(), (std::vector<std::int64_t>{3, 12, 16}));
}

TEST(ImageFolder, ABadFileInABatchIsNamedWithItsIndex) {
  const test::TemporaryFolder folder;
  write_pictures(folder);
  write_file(folder.file("b/2.ppm"), "P6 16 12 255\ncut off");
  const ImageFolder images(index_image_folder(folder.file(".")), random_crops());
  const std::vector<std::int64_t> indices{3, 2};
  EXPECT_THAT([&] { (void)images.get_batch(indices, {}); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("sample 2: image '"), HasSubstr("b/2.ppm'"))));
}

// Its Lambda throws `fault`.
template <class Fault>
ImageFolder failing_pictures(const test::TemporaryFolder& folder, const Fault& fault,
                             CachePlace cache) {
  const Lambda fails{[fault](Image image, SampleRandom&) {
    throw fault;
    return image;
  }};
  return ImageFolder(index_image_folder(folder.file(".")),
                     Compose({fails, CenterCrop{.size = 4}, ToTensor{}}), {.cache = cache});
}

template <class Expected, class Fault>
void expect_index_and_path(const ImageFolder& images, const Fault& fault) {
  const std::vector<std::int64_t> indices{2, 1};
  EXPECT_THAT([&] { (void)images.get(2); },
              ThrowsMessage<Expected>(AllOf(HasSubstr("b/2.ppm': "), HasSubstr(fault.what()))));
  EXPECT_THAT([&] { (void)images.get_batch(indices, {}); },
              ThrowsMessage<Expected>(AllOf(StartsWith("sample 2: image '"),
                                            HasSubstr("b/2.ppm': "), HasSubstr(fault.what()))));
}

TEST(ImageFolder, AnErrorOfATransformHasIndexAndPath) {
  const test::TemporaryFolder folder;
  write_pictures(folder);
  for (const CachePlace cache : {CachePlace::kNone, CachePlace::kRam}) {
    const auto expect_place = [&]<class Expected, class Fault>(const Fault& fault, Expected) {
      expect_index_and_path<Expected>(failing_pictures(folder, fault, cache), fault);
    };
    expect_place(std::runtime_error("no such colour"), Error(""));
    expect_place(std::bad_alloc(), Error(""));
    expect_place(UsageError("no such colour"), UsageError(""));
    expect_place(IoError("no such colour"), IoError(""));
  }
}

TEST(ImageFolder, AnErrorOfAnotherTypeIsInsideTheOneThatNamesTheFile) {
  const test::TemporaryFolder folder;
  write_pictures(folder);
  const std::vector<std::int64_t> indices{2, 1};
  try {
    (void)failing_pictures(folder, std::bad_alloc(), CachePlace::kNone).get_batch(indices, {});
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_THROW(std::rethrow_if_nested(error), std::bad_alloc);
  }
}

}  // namespace
}  // namespace lockstep::data
