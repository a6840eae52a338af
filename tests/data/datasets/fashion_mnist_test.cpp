#include "lockstep/data/datasets/fashion_mnist.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "tests/data/files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string images(std::uint32_t count) {
  return idx_header(0x08, {count, 28, 28}) + std::string(std::size_t{count} * 784, '\x33');
}

std::string label_file(const std::string& values) {
  return idx_header(0x08, {static_cast<std::uint32_t>(values.size())}) + values;
}

class FashionMnist : public ::testing::Test {
 protected:
  [[nodiscard]] ImageDataset load(Split split, const Normalization& normalization = {}) const {
    return fashion_mnist(folder.file(""), split, normalization);
  }

  test::TemporaryFolder folder;
};

TEST_F(FashionMnist, ReadsPlainAndPackedFiles) {
  write_file(folder.file("train-images-idx3-ubyte"), images(3));
  write_file(folder.file("train-labels-idx1-ubyte"), label_file("\1\2\3"));
  write_file(folder.file("t10k-images-idx3-ubyte.gz"), gzip(images(2)));
  write_file(folder.file("t10k-labels-idx1-ubyte.gz"), gzip(label_file("\4\5")));
  EXPECT_EQ(load(Split::kTrain).size(), 3);
  const ImageDataset test = load(Split::kTest, {.mean = {0.2}, .std = {0.5}});
  EXPECT_EQ(test.size(), 2);
  const std::vector<std::int64_t> second{1};
  const Batch batch = test.batch(second);
  EXPECT_EQ(batch.images.sizes(), (std::vector<std::int64_t>{1, 1, 28, 28}));
  EXPECT_EQ(batch.images[0][0][0][0].item<float>(), 0.0F);  // 0x33 is a fifth of 255.
  EXPECT_EQ(batch.labels[0].item<std::int64_t>(), 5);
  EXPECT_EQ(find_fashion_mnist(folder.file("")), folder.file(""));
}

TEST_F(FashionMnist, AMissingFileIsNamed) {
  write_file(folder.file("train-images-idx3-ubyte"), images(3));
  EXPECT_THAT([&] { (void)load(Split::kTrain); },
              ThrowsMessage<IoError>(HasSubstr("neither train-labels-idx1-ubyte nor")));
  EXPECT_EQ(find_fashion_mnist(folder.file("")), std::nullopt);
  EXPECT_EQ(find_fashion_mnist("/nowhere"), std::nullopt);
}

// The package's files are these, whatever our constant says.
TEST(FindFashionMnist, FindsWhatDebianInstalls) {
  const std::string debian = "/usr/share/datasets/fashion-mnist";
  EXPECT_EQ(kFashionMnistFolder, debian);
  if (std::filesystem::exists(debian + "/train-images-idx3-ubyte.gz")) {
    ASSERT_EQ(find_fashion_mnist(), debian);
    EXPECT_EQ(fashion_mnist(debian, Split::kTest).size(), 10000);
  } else {
    EXPECT_EQ(find_fashion_mnist(), std::nullopt);
  }
}

TEST_F(FashionMnist, FilesThatDoNotFitEachOtherAreAnIoError) {
  write_file(folder.file("train-images-idx3-ubyte"), images(3));
  write_file(folder.file("train-labels-idx1-ubyte"), label_file("\1\2"));
  EXPECT_THAT([&] { (void)load(Split::kTrain); },
              ThrowsMessage<IoError>(
                  AllOf(HasSubstr("train-images-idx3-ubyte"), HasSubstr("3 images and 2 labels"))));
}

TEST_F(FashionMnist, AWrongNormalisationIsAUsageError) {
  write_file(folder.file("train-images-idx3-ubyte"), images(1));
  write_file(folder.file("train-labels-idx1-ubyte"), label_file("\1"));
  EXPECT_THROW((void)load(Split::kTrain, {.mean = {0.1, 0.2}, .std = {1}}), UsageError);
}

}  // namespace
}  // namespace lockstep::data
