#include "lockstep/train/input/augment.h"

#include <ATen/ops/flip.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/image_dataset.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

data::Sample images() {
  return {at::rand({8, 1, 12, 12}).add_(1), at::arange(8, at::kLong).remainder(3)};
}

DataSource image_source() {
  DataSource source = toys::table();
  source.input = {1, 12, 12};
  return source;
}

TEST(BatchTransform, IsEmptyWhereNothingIsAskedFor) {
  EXPECT_FALSE(batch_transform({}, image_source()));
}

// Bytes that are not 0.
DataSource bytes_in_memory() {
  auto source = image_source();
  source.train = std::make_shared<data::ImageDataset>(
      at::randint(1, 256, {64, 1, 12, 12}, at::kByte), at::arange(64, at::kLong).remainder(3));
  return source;
}

std::vector<std::int64_t> indices_of(const data::Dataset& dataset) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(dataset.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

TEST(TrainingSet, ErasesABoxOfSomeImages) {
  const auto set = training_set({.reprob = 0.5}, bytes_in_memory());
  const auto batch = set->get_batch(indices_of(*set), {}).value();
  const auto erased = batch.data.flatten(1).eq(0).any(1).sum().item<std::int64_t>();
  EXPECT_GT(erased, 10);
  EXPECT_LT(erased, 54);
}

TEST(TrainingSet, FlipsAndCropsOnlyIfAsked) {
  const auto source = bytes_in_memory();
  EXPECT_EQ(training_set({}, source), source.train);
  const auto plain = source.train->get_batch(indices_of(*source.train), {}).value().data;
  for (const TrainConfig& config : {TrainConfig{.hflip = 0.5}, TrainConfig{.crop_padding = 2}}) {
    const auto set = training_set(config, source);
    EXPECT_FALSE(set->get_batch(indices_of(*set), {}).value().data.equal(plain));
  }
  const auto flipped = training_set({.hflip = 1}, source);
  EXPECT_TRUE(flipped->get_batch(indices_of(*flipped), {}).value().data.equal(plain.flip(3)));
}

TEST(TrainingSet, RefusesTables) {
  EXPECT_THROW(training_set({.reprob = 0.5}, toys::table()), UsageError);
  EXPECT_NO_THROW(training_set({}, toys::table()));
}

TEST(BatchTransform, MixesImagesAndLabels) {
  for (const TrainConfig& config : {TrainConfig{.mixup = 0.2}, TrainConfig{.cutmix = 1}}) {
    data::SampleRandom random(0, 0, 0);
    const auto before = images();
    const auto batch =
        batch_transform(config, image_source())({before.data.clone(), before.target}, random);
    EXPECT_FALSE(batch.data.equal(before.data));
    EXPECT_EQ(batch.target.sizes(), at::IntArrayRef({8, 3}));
  }
}

TEST(BatchTransform, RefusesTables) {
  EXPECT_THROW(batch_transform({.mixup = 0.2}, toys::table()), UsageError);
}

}  // namespace
}  // namespace lockstep::train
