#include "lockstep/data/datasets/generated_images.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::uint64_t fnv1a(const at::Tensor& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto* byte = bytes.const_data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < bytes.numel(); ++i) {
    hash = (hash ^ byte[i]) * 0x100000001b3;
  }
  return hash;
}

TEST(GeneratedImages, AreTheSameOnEveryMachine) {
  EXPECT_EQ(fnv1a(generated_images({.size = 1000}).images()), 17747620619901647760U);
}

TEST(GeneratedImages, DependOnSeedAndIndexAlone) {
  const ImageDataset ten = generated_images({.size = 10});
  const ImageDataset more = generated_images({.size = 20});
  EXPECT_TRUE(at::equal(more.images().slice(0, 0, 10), ten.images()));
  EXPECT_TRUE(at::equal(more.labels().slice(0, 0, 10), ten.labels()));
  EXPECT_FALSE(at::equal(generated_images({.size = 10, .seed = 1}).images(), ten.images()));
}

TEST(GeneratedImages, HaveClassesOfAboutTheSameSize) {
  const at::Tensor counts = at::one_hot(generated_images({.size = 10000}).labels(), 10).sum(0);
  EXPECT_GT(counts.min().item<std::int64_t>(), 900);
  EXPECT_LT(counts.max().item<std::int64_t>(), 1100);
}

at::Tensor features(const ImageDataset& dataset) {
  const at::Tensor pixels = dataset.images().to(at::kDouble).div(255).flatten(1);
  return at::cat({pixels, at::ones({dataset.size(), 1}, at::kDouble)}, 1);
}

// Ridge regression sees pixels and no shapes: a network does far better, chance is 10 %.
TEST(GeneratedImages, CanBeLearned) {
  const ImageDataset train = generated_images({.size = 4000});
  const ImageDataset test = generated_images({.size = 1000, .seed = 1});
  const at::Tensor x = features(train);
  const at::Tensor targets = at::one_hot(train.labels(), 10).to(at::kDouble);
  const at::Tensor normal = x.t().mm(x).add_(at::eye(x.size(1), at::kDouble), 10);
  const at::Tensor weights = at::linalg_solve(normal, x.t().mm(targets));
  const at::Tensor guesses = features(test).mm(weights).argmax(1);
  const double accuracy = guesses.eq(test.labels()).to(at::kDouble).mean().item<double>();
  EXPECT_GT(accuracy, 0.5);
  RecordProperty("accuracy", std::to_string(accuracy));
}

TEST(GeneratedImages, ANegativeSizeIsAnError) {
  EXPECT_THAT([] { (void)generated_images({.size = -1}); },
              ThrowsMessage<UsageError>(HasSubstr("size is -1")));
  EXPECT_EQ(generated_images({.size = 0}).size(), 0);
}

}  // namespace
}  // namespace lockstep::data
