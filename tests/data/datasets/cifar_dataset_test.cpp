#include "lockstep/data/datasets/cifar_dataset.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/data/readers/cifar.h"
#include "tests/data/files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Red, then green, then blue.
std::string planes(char red, char green, char blue) {
  return std::string(1024, red) + std::string(1024, green) + std::string(1024, blue);
}

TEST(Cifar10, ReadsFiveTrainingFilesAndOneTestFile) {
  const test::TemporaryFolder folder;
  for (int i = 1; i <= 5; ++i) {
    write_file(folder.file("data_batch_" + std::to_string(i) + ".bin"),
               std::string(1, static_cast<char>(i)) + planes(1, 2, static_cast<char>(i)));
  }
  write_file(folder.file("test_batch.bin"), "\x09" + planes(4, 5, 6));
  const ImageDataset train = cifar10(folder.file("."), Split::kTrain);
  EXPECT_EQ(train.size(), 5);
  EXPECT_EQ(train.num_classes(), 10);
  EXPECT_EQ(train.labels()[4].item<std::int64_t>(), 5);
  EXPECT_EQ(train.images()[4][1][31][31].item<int>(), 2);
  EXPECT_EQ(train.images()[4][2][0][0].item<int>(), 5);
  EXPECT_EQ(cifar10(folder.file("."), Split::kTest).labels()[0].item<std::int64_t>(), 9);
}

TEST(Cifar10, AFileThatIsCutBetweenTwoImagesIsNamed) {
  const test::TemporaryFolder folder;
  for (int i = 1; i <= 5; ++i) {
    const std::string record = "\x09" + planes(4, 5, 6);
    write_file(folder.file("data_batch_" + std::to_string(i) + ".bin"),
               i == 3 ? record : record + record);
  }
  EXPECT_THAT([&] { cifar10(folder.file("."), Split::kTrain); },
              ThrowsMessage<IoError>(HasSubstr("data_batch_3.bin' has 1 images and ")));
}

TEST(Cifar100, HasTheFineLabels) {
  const test::TemporaryFolder folder;
  write_file(folder.file("train.bin"), std::string{7, 88} + planes(1, 2, 3));
  const ImageDataset train = cifar100(folder.file("."), Split::kTrain);
  EXPECT_EQ(train.num_classes(), 100);
  EXPECT_EQ(train.labels()[0].item<std::int64_t>(), 88);
  EXPECT_THAT([&] { cifar100(folder.file("."), Split::kTest); },
              ThrowsMessage<IoError>(HasSubstr("test.bin")));
}

}  // namespace
}  // namespace lockstep::data
