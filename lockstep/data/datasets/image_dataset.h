// Images of one size with a class each, held in memory as bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/data/datasets/dataset.h"

namespace lockstep::data {

// As torchvision's ToTensor and Normalize: (byte / 255 - mean) / std, per channel. Without mean and
// std the values are 0 to 1.
struct Normalization {
  std::vector<double> mean;
  std::vector<double> std;
};

struct ImageDatasetOptions {
  std::int64_t num_classes = 10;
  Normalization normalization;
};

struct Batch {
  at::Tensor images;  // float32 [N, C, H, W].
  at::Tensor labels;  // int64 [N].
};

// Immutable: threads may fetch batches at the same time. Copies share the images.
class ImageDataset : public Dataset {
 public:
  // `images` is uint8 [N, H, W] or [N, C, H, W], `labels` are integers [N]. Throws UsageError if
  // shapes, types or counts do not fit, or if a label is no class.
  ImageDataset(at::Tensor images, const at::Tensor& labels,
               const ImageDatasetOptions& options = {});

  [[nodiscard]] std::int64_t size() const override { return images_.size(0); }
  [[nodiscard]] std::int64_t num_classes() const { return num_classes_; }

  // A float32 image [C, H, W] and its label, int64 [].
  [[nodiscard]] Sample get(std::int64_t index) const override;

  // In the order of `indices`, in memory of its own. Throws UsageError naming an index that is out
  // of range.
  [[nodiscard]] Batch batch(std::span<const std::int64_t> indices) const;
  [[nodiscard]] std::optional<Sample> get_batch(std::span<const std::int64_t> indices,
                                                const EpochSeed& epoch) const override;
  [[nodiscard]] bool is_in_memory() const override { return true; }

  [[nodiscard]] const at::Tensor& images() const { return images_; }  // uint8 [N, C, H, W].
  [[nodiscard]] const at::Tensor& labels() const { return labels_; }  // int64 [N].
  // float32 [C, 256]: what a byte of a channel becomes.
  [[nodiscard]] const at::Tensor& values() const { return values_; }

 private:
  at::Tensor images_;
  at::Tensor labels_;
  std::int64_t num_classes_;
  at::Tensor values_;
};

}  // namespace lockstep::data
