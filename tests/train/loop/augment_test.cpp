#include "lockstep/train/loop/augment.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/train/loop/toys.h"

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

TEST(BatchTransform, ErasesABoxOfSomeImages) {
  data::SampleRandom random(0, 0, 0);
  const auto batch = batch_transform({.reprob = 0.5}, image_source())(images(), random);
  const auto erased = batch.data.flatten(1).eq(0).any(1).sum().item<std::int64_t>();
  EXPECT_GT(erased, 0);
  EXPECT_LT(erased, 8);
  EXPECT_EQ(batch.target.dim(), 1);
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
