#include "lockstep/data/datasets/image_dataset.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <sstream>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw UsageError("ImageDataset: " + what); }

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

void check_images(const at::Tensor& images) {
  if (images.scalar_type() != at::kByte || !images.device().is_cpu() || images.dim() != 4) {
    refuse("the images are " + shape_text(images) +
           ", expected bytes [N, H, W] or [N, C, H, W] on the CPU");
  }
}

void check_labels(const at::Tensor& labels, std::int64_t images, std::int64_t num_classes) {
  if (!at::isIntegralType(labels.scalar_type(), /*includeBool=*/false) ||
      !labels.device().is_cpu() || labels.dim() != 1) {
    refuse("the labels are " + shape_text(labels) + ", expected integers [N] on the CPU");
  }
  if (labels.size(0) != images) {
    refuse("there are " + std::to_string(images) + " images and " + std::to_string(labels.size(0)) +
           " labels, expected as many");
  }
  const at::Tensor wide = labels.to(at::kLong).contiguous();
  const auto* values = wide.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < images; ++i) {
    if (values[i] < 0 || values[i] >= num_classes) {
      refuse("label " + std::to_string(i) + " is " + std::to_string(values[i]) +
             ", expected 0 to " + std::to_string(num_classes - 1));
    }
  }
}

at::Tensor per_channel(const std::vector<double>& numbers, std::int64_t channels) {
  if (static_cast<std::int64_t>(numbers.size()) != channels) {
    refuse("mean or std has " + std::to_string(numbers.size()) +
           " numbers, expected one for each of " + std::to_string(channels) +
           " channels, or neither mean nor std");
  }
  return at::tensor(numbers, at::kFloat).view({-1, 1});
}

// There are 256 bytes: the arithmetic of torchvision, in its order, is done once for each.
at::Tensor value_table(const Normalization& normalization, std::int64_t channels) {
  const auto& [mean, std] = normalization;
  at::Tensor values = at::arange(256, at::kFloat).div_(255).repeat({channels, 1});
  if (mean.empty() && std.empty()) {
    return values;
  }
  values.sub_(per_channel(mean, channels)).div_(per_channel(std, channels));
  for (const double value : std) {
    if (!(value > 0)) {
      refuse("std has " + std::to_string(value) + ", expected positive numbers");
    }
  }
  return values;
}

}  // namespace

ImageDataset::ImageDataset(at::Tensor images, const at::Tensor& labels,
                           const ImageDatasetOptions& options)
    : images_(images.dim() == 3 ? images.unsqueeze(1) : std::move(images)),
      num_classes_(options.num_classes) {
  check_images(images_);
  check_labels(labels, images_.size(0), num_classes_);
  images_ = images_.contiguous();
  labels_ = labels.to(at::kLong).contiguous();
  values_ = value_table(options.normalization, images_.size(1));
}

Sample ImageDataset::get(std::int64_t index) const {
  const Batch one = batch({&index, 1});
  return {one.images.select(0, 0), one.labels.select(0, 0)};
}

std::optional<Sample> ImageDataset::get_batch(std::span<const std::int64_t> indices,
                                              const EpochSeed& /*epoch*/) const {
  Batch made = batch(indices);
  return Sample{std::move(made.images), std::move(made.labels)};
}

Batch ImageDataset::batch(std::span<const std::int64_t> indices) const {
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= size()) {
      throw UsageError("ImageDataset::batch: index " + std::to_string(index) +
                       " is outside of the data set, which has " + std::to_string(size()) +
                       " images");
    }
  }
  const std::int64_t channels = images_.size(1);
  const std::int64_t pixels = images_.size(2) * images_.size(3);
  Batch batch{at::empty({static_cast<std::int64_t>(indices.size()), channels, images_.size(2),
                         images_.size(3)},
                        at::kFloat),
              at::empty({static_cast<std::int64_t>(indices.size())}, at::kLong)};
  auto* value = batch.images.mutable_data_ptr<float>();
  auto* label = batch.labels.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    *label++ = labels_.const_data_ptr<std::int64_t>()[index];
    const auto* byte = images_.const_data_ptr<std::uint8_t>() + index * channels * pixels;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const float* values = values_.const_data_ptr<float>() + channel * 256;
      for (std::int64_t i = 0; i < pixels; ++i) {
        *value++ = values[*byte++];
      }
    }
  }
  return batch;
}

}  // namespace lockstep::data
