#include "lockstep/data/datasets/image_folder_dataset.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "tests/base/child.h"
#include "tests/data/files.h"
#include "tests/python.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
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

}  // namespace
}  // namespace lockstep::data
