// Images in memory with random crops, flips and erased boxes: what most people train CIFAR with.
//
//   AugmentedImages train(std::make_shared<ImageDataset>(cifar10(folder, Split::kTrain)),
//                         {.padding = 4, .hflip = 0.5});
//
// The images are those of Compose({RandomCrop{size, padding}, RandomHorizontalFlip{hflip},
// ToTensor{}, Normalize{...}, RandomErasing{erase}}), less the steps that are off; images of one
// channel have them, too. What is random follows from seed, epoch and index, so it does not depend
// on ranks, batches or workers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lockstep/data/datasets/dataset.h"
#include "lockstep/data/datasets/image_dataset.h"

namespace lockstep::data {

struct ImageAugmentation {
  std::int64_t padding = 0;  // Black pixels around an image, of which its size is cut; 0: off.
  double hflip = 0;          // The probabilities; 0: off.
  double erase = 0;
};

class AugmentedImages : public Dataset {
 public:
  // Throws UsageError if the padding is negative, or a probability is not 0 to 1.
  AugmentedImages(std::shared_ptr<const ImageDataset> images,
                  const ImageAugmentation& augmentation);

  [[nodiscard]] std::int64_t size() const override { return images_->size(); }
  [[nodiscard]] Sample get(std::int64_t index) const override;  // As of epoch 0 with seed 0.
  [[nodiscard]] Sample get_in_epoch(std::int64_t index, const EpochSeed& epoch) const override;
  [[nodiscard]] std::optional<Sample> get_batch(std::span<const std::int64_t> indices,
                                                const EpochSeed& epoch) const override;
  [[nodiscard]] bool is_in_memory() const override { return true; }

 private:
  void write(std::int64_t index, const EpochSeed& epoch, float* out) const;

  std::shared_ptr<const ImageDataset> images_;
  ImageAugmentation augmentation_;
};

}  // namespace lockstep::data
