#include "lockstep/data/datasets/augmented_images.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/transforms/get_params.h"

namespace lockstep::data {
namespace {

void require_probability(const char* name, double value) {
  if (!(value >= 0 && value <= 1)) {
    throw UsageError("AugmentedImages: " + std::string(name) + " is " + std::to_string(value) +
                     ", expected a probability from 0 to 1");
  }
}

// What is drawn for one image.
struct Draw {
  Box crop;  // May reach beyond the image.
  bool flip = false;
  std::optional<Box> erased;
};

// In the order of Compose's steps. One that is off draws nothing.
Draw draw_for(const ImageAugmentation& augmentation, Size size, SampleRandom random) {
  Draw draw{.crop = {.left = 0, .top = 0, .width = size.width, .height = size.height},
            .erased = {}};
  if (augmentation.padding > 0) {
    draw.crop = get_params(RandomCrop{.size = size, .padding = augmentation.padding}, size, random);
  }
  if (augmentation.hflip > 0) {
    draw.flip = random.uniform() < augmentation.hflip;
  }
  if (augmentation.erase > 0) {
    draw.erased = get_params(RandomErasing{.p = augmentation.erase}, size, random);
  }
  return draw;
}

// One channel. `values` is what a byte becomes.
void write_plane(const std::uint8_t* bytes, const float* values, const Draw& draw, float* out) {
  const auto& [left, top, width, height] = draw.crop;
  // Columns of the crop that are in the image; the others are black.
  const std::int64_t begin = std::clamp(-left, std::int64_t{0}, width);
  const std::int64_t end = std::clamp(width - left, begin, width);
  for (std::int64_t y = 0; y < height; ++y) {
    float* const row = out + y * width;
    const std::int64_t from = top + y;
    std::fill_n(row, width, values[0]);
    if (from >= 0 && from < height) {
      for (std::int64_t x = begin; x < end; ++x) {
        row[x] = values[bytes[from * width + left + x]];
      }
    }
    if (draw.flip) {
      std::reverse(row, row + width);
    }
    if (draw.erased && y >= draw.erased->top && y < draw.erased->top + draw.erased->height) {
      std::fill_n(row + draw.erased->left, draw.erased->width, 0.0F);
    }
  }
}

}  // namespace

AugmentedImages::AugmentedImages(std::shared_ptr<const ImageDataset> images,
                                 const ImageAugmentation& augmentation)
    : images_(std::move(images)), augmentation_(augmentation) {
  if (augmentation_.padding < 0) {
    throw UsageError("AugmentedImages: padding is " + std::to_string(augmentation_.padding) +
                     ", expected 0 or more pixels");
  }
  require_probability("hflip", augmentation_.hflip);
  require_probability("erase", augmentation_.erase);
}

void AugmentedImages::write(std::int64_t index, const EpochSeed& epoch, float* out) const {
  const at::Tensor& images = images_->images();
  const Size size{images.size(2), images.size(3)};
  const std::int64_t plane = size.height * size.width;
  const Draw draw = draw_for(augmentation_, size,
                             SampleRandom(epoch.seed, static_cast<std::uint64_t>(epoch.epoch),
                                          static_cast<std::uint64_t>(index)));
  const auto* bytes = images.const_data_ptr<std::uint8_t>() + index * images.size(1) * plane;
  const auto* values = images_->values().const_data_ptr<float>();
  for (std::int64_t channel = 0; channel < images.size(1); ++channel) {
    write_plane(bytes + channel * plane, values + channel * 256, draw, out + channel * plane);
  }
}

Sample AugmentedImages::get(std::int64_t index) const { return get_in_epoch(index, {}); }

Sample AugmentedImages::get_in_epoch(std::int64_t index, const EpochSeed& epoch) const {
  const Sample one = *get_batch({&index, 1}, epoch);
  return {one.data.select(0, 0), one.target.select(0, 0)};
}

std::optional<Sample> AugmentedImages::get_batch(std::span<const std::int64_t> indices,
                                                 const EpochSeed& epoch) const {
  const auto sizes = images_->images().sizes();
  const auto count = static_cast<std::int64_t>(indices.size());
  Sample batch{at::empty({count, sizes[1], sizes[2], sizes[3]}, at::kFloat),
               at::empty({count}, at::kLong)};
  auto* image = batch.data.mutable_data_ptr<float>();
  auto* label = batch.target.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    require_index("AugmentedImages", index, size());
    *label++ = images_->labels().const_data_ptr<std::int64_t>()[index];
    write(index, epoch, image);
    image += sizes[1] * sizes[2] * sizes[3];
  }
  return batch;
}

}  // namespace lockstep::data
