#include "lockstep/data/datasets/image_dataset.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  return {static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()};
}

at::Tensor labels(const std::vector<std::int64_t>& values) { return at::tensor(values); }

TEST(ImageDataset, NormalisesToTheBitsOfTorchvision) {
  const test::TemporaryFolder folder;
  test::run_python("data/datasets/to_tensor.py", {folder.file("values")});
  const at::Tensor image = at::arange(256)
                               .view({1, 1, 16, 16})
                               .add(at::tensor({0, 100, 200}).view({1, 3, 1, 1}))
                               .to(at::kByte);
  const ImageDataset plain(image, labels({0}));
  const ImageDataset normal(
      image, labels({0}),
      {.normalization = {.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}}});
  const std::vector<std::int64_t> first{0};
  EXPECT_TRUE(bytes_of(plain.batch(first).images) + bytes_of(normal.batch(first).images) ==
              read_file(folder.file("values")));
}

TEST(ImageDataset, ABatchHasTheOrderOfItsIndices) {
  const at::Tensor images = at::arange(4 * 6).to(at::kByte).view({4, 2, 3});
  const ImageDataset dataset(images, at::tensor({5, 6, 7, 8}, at::kByte));
  const std::vector<std::int64_t> indices{3, 0, 3};
  const Batch batch = dataset.batch(indices);
  EXPECT_EQ(batch.images.sizes(), (std::vector<std::int64_t>{3, 1, 2, 3}));
  EXPECT_EQ(batch.images.scalar_type(), at::kFloat);
  EXPECT_EQ(batch.images[1][0][1][2].item<float>(), 5.0F / 255);
  EXPECT_TRUE(at::equal(batch.images[0], batch.images[2]));
  EXPECT_TRUE(at::equal(batch.labels, labels({8, 5, 8})));
}

TEST(ImageDataset, ASampleIsABatchOfOne) {
  const ImageDataset dataset(at::arange(12).to(at::kByte).view({2, 2, 3}), labels({7, 8}));
  const Sample sample = dataset.get(1);
  EXPECT_EQ(sample.data.sizes(), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(sample.data[0][1][2].item<float>(), 11.0F / 255);
  EXPECT_EQ(sample.target.item<std::int64_t>(), 8);
}

TEST(ImageDataset, NoIndicesGiveAnEmptyBatch) {
  const ImageDataset dataset(at::zeros({1, 2, 3}, at::kByte), labels({0}));
  const Batch batch = dataset.batch({});
  EXPECT_EQ(batch.images.sizes(), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(batch.labels.size(0), 0);
}

TEST(ImageDataset, AnIndexOutOfRangeIsNamed) {
  const ImageDataset dataset(at::zeros({3, 2, 2}, at::kByte), labels({0, 1, 2}));
  for (const std::int64_t index : {-1, 3}) {
    const std::vector<std::int64_t> indices{0, index};
    EXPECT_THAT([&] { (void)dataset.batch(indices); },
                ThrowsMessage<UsageError>(HasSubstr("index " + std::to_string(index))));
  }
}

TEST(ImageDataset, WhatDoesNotFitIsRefused) {
  const at::Tensor images = at::zeros({3, 2, 2}, at::kByte);
  const auto make = [](const at::Tensor& x, const at::Tensor& y, const Normalization& n = {}) {
    return [=] { ImageDataset(x, y, {.normalization = n}); };
  };
  EXPECT_THAT(make(images, labels({0, 1})),
              ThrowsMessage<UsageError>(HasSubstr("3 images and 2 labels")));
  EXPECT_THAT(make(images, labels({0, 1, 10})),
              ThrowsMessage<UsageError>(HasSubstr("label 2 is 10, expected 0 to 9")));
  EXPECT_THAT(make(images.to(at::kFloat), labels({0, 1, 2})),
              ThrowsMessage<UsageError>(HasSubstr("the images are Float [3, 1, 2, 2]")));
  EXPECT_THAT(make(images, images), ThrowsMessage<UsageError>(HasSubstr("the labels are Byte")));
  EXPECT_THAT(make(images, labels({0, 1, 2}), {.mean = {0.5, 0.5}, .std = {1}}),
              ThrowsMessage<UsageError>(HasSubstr("has 2 numbers")));
  EXPECT_THAT(make(images, labels({0, 1, 2}), {.mean = {0.5}, .std = {0}}),
              ThrowsMessage<UsageError>(HasSubstr("expected positive numbers")));
}

}  // namespace
}  // namespace lockstep::data
