#include "lockstep/data/datasets/augmented_images.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/data/loader/data_loader.h"
#include "lockstep/data/samplers/distributed_sampler.h"
#include "lockstep/data/transforms/compose.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kImages = 40;

// Each image is a class of its own, so that a batch tells which images it has.
std::shared_ptr<const ImageDataset> noisy_images(std::int64_t channels,
                                                 const Normalization& by = {}) {
  return std::make_shared<ImageDataset>(
      at::randint(1, 256, {kImages, channels, 12, 10}, at::kByte), at::arange(kImages, at::kLong),
      ImageDatasetOptions{.num_classes = kImages, .normalization = by});
}

// One after another, what Compose makes of the same bytes.
at::Tensor composed(const ImageDataset& images, const Compose& compose, std::int64_t index,
                    const EpochSeed& epoch) {
  const at::Tensor rows = images.images()[index].permute({1, 2, 0}).contiguous();
  ImageView view;
  view.pixels = rows.const_data_ptr<std::uint8_t>();
  view.height = rows.size(0);
  view.width = rows.size(1);
  view.row_bytes = static_cast<std::size_t>(rows.size(1) * 3);
  const FloatImage image =
      compose.apply(view, SampleRandom(epoch.seed, static_cast<std::uint64_t>(epoch.epoch),
                                       static_cast<std::uint64_t>(index)));
  at::Tensor out = at::empty({3, image.size.height, image.size.width}, at::kFloat);
  std::ranges::copy(image.span(), out.mutable_data_ptr<float>());
  return out;
}

TEST(AugmentedImages, AreThoseOfCompose) {
  at::manual_seed(1);
  const auto images = noisy_images(3, {{0.5, 0.25, 0.4}, {0.2, 0.3, 0.25}});
  const Normalize by{.mean = {0.5F, 0.25F, 0.4F}, .std = {0.2F, 0.3F, 0.25F}};
  const RandomCrop crop{.size = {12, 10}, .padding = 4};
  const std::vector<std::pair<ImageAugmentation, Compose>> cases = {
      {{.padding = 4}, Compose({crop, ToTensor{}, by})},
      {{.hflip = 0.5}, Compose({RandomHorizontalFlip{0.5}, ToTensor{}, by})},
      {{.erase = 0.7}, Compose({ToTensor{}, by, RandomErasing{.p = 0.7}})},
      {{.padding = 4, .hflip = 0.5, .erase = 0.7},
       Compose({crop, RandomHorizontalFlip{0.5}, ToTensor{}, by, RandomErasing{.p = 0.7}})}};
  for (const auto& [augmentation, compose] : cases) {
    const AugmentedImages augmented(images, augmentation);
    const EpochSeed epoch{.seed = 7, .epoch = 3};
    int changed = 0;
    for (std::int64_t i = 0; i < kImages; ++i) {
      const Sample sample = augmented.get_in_epoch(i, epoch);
      EXPECT_TRUE(at::allclose(sample.data, composed(*images, compose, i, epoch), 1e-6, 1e-6)) << i;
      EXPECT_EQ(sample.target.item<std::int64_t>(), i);
      changed += sample.data.equal(images->get(i).data) ? 0 : 1;
    }
    EXPECT_GT(changed, kImages / 4);
  }
}

TEST(AugmentedImages, OfOneChannelHaveThemToo) {
  const auto images = noisy_images(1);
  const AugmentedImages augmented(images, {.erase = 1});
  const Sample sample = augmented.get(3);
  EXPECT_EQ(sample.data.sizes(), at::IntArrayRef({1, 12, 10}));
  EXPECT_GT(sample.data.eq(0).sum().item<std::int64_t>(), 0);
  EXPECT_LT(sample.data.eq(0).sum().item<std::int64_t>(), 120);
}

// What all ranks together load in epoch 2, by the images' numbers.
std::map<std::int64_t, at::Tensor> loaded(const std::shared_ptr<const Dataset>& images, int ranks,
                                          std::int64_t batch_size) {
  std::map<std::int64_t, at::Tensor> all;
  for (int rank = 0; rank < ranks; ++rank) {
    DataLoader loader(images, {.batch_size = batch_size,
                               .sampler = DistributedSampler(kImages, ranks, rank, {.seed = 5})});
    loader.load_state_dict({5, 2, 0});
    for (const Sample& batch : loader) {
      for (std::int64_t i = 0; i < batch.data.size(0); ++i) {
        all[batch.target[i].item<std::int64_t>()] = batch.data[i];
      }
    }
  }
  return all;
}

TEST(AugmentedImages, DoNotDependOnRanksAndBatches) {
  const auto images = std::make_shared<AugmentedImages>(
      noisy_images(1), ImageAugmentation{.padding = 2, .hflip = 0.5, .erase = 0.5});
  const auto alone = loaded(images, 1, 10);
  ASSERT_EQ(alone.size(), static_cast<std::size_t>(kImages));
  for (const auto& [ranks, batch_size] : {std::pair(2, 10), std::pair(2, 4), std::pair(1, 7)}) {
    const auto other = loaded(images, ranks, batch_size);
    ASSERT_EQ(other.size(), alone.size());
    for (const auto& [index, image] : alone) {
      EXPECT_TRUE(image.equal(other.at(index))) << index << " of " << ranks << " ranks";
    }
  }
  EXPECT_FALSE(images->get_in_epoch(0, {5, 2}).data.equal(images->get_in_epoch(0, {5, 3}).data));
}

TEST(AugmentedImages, WrongNumbersAreNamed) {
  const auto images = noisy_images(1);
  EXPECT_THAT([&] { AugmentedImages(images, {.padding = -1}); },
              ThrowsMessage<UsageError>(HasSubstr("padding is -1")));
  EXPECT_THAT([&] { AugmentedImages(images, {.hflip = 1.5}); },
              ThrowsMessage<UsageError>(HasSubstr("hflip is 1.5")));
  EXPECT_THAT([&] { AugmentedImages(images, {.erase = -0.5}); },
              ThrowsMessage<UsageError>(HasSubstr("erase is -0.5")));
  const AugmentedImages augmented(images, {});
  EXPECT_THAT([&] { (void)augmented.get(kImages); },
              ThrowsMessage<UsageError>(HasSubstr("index 40")));
}

}  // namespace
}  // namespace lockstep::data
