// A folder of image files as a data set: torchvision's ImageFolder.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "lockstep/data/datasets/dataset.h"
#include "lockstep/data/decode/decode.h"
#include "lockstep/data/readers/image_folder.h"
#include "lockstep/data/transforms/compose.h"
#include "lockstep/data/workers/recycled_memory.h"

namespace lockstep::data {

// Reads and decodes a file on each get().
class ImageFolder : public Dataset {
 public:
  // Images keep their sizes.
  explicit ImageFolder(ImageFolderIndex index, const DecodeOptions& decoding = {});
  // What is random in `transform` follows from seed, epoch and index.
  ImageFolder(ImageFolderIndex index, Compose transform, const DecodeOptions& decoding = {});

  [[nodiscard]] std::int64_t size() const override;

  // The image and its class, int64 []. Without a transform the image is uint8 [height, width, 3],
  // else float32 [3, height, width], as of epoch 0 with seed 0. Throws IoError with the path if the
  // file cannot be read or is no image.
  [[nodiscard]] Sample get(std::int64_t index) const override;
  [[nodiscard]] Sample get_in_epoch(std::int64_t index, const EpochSeed& epoch) const override;

  // Where all images become one size: each is written where it lies in the batch.
  [[nodiscard]] std::optional<Sample> get_batch(std::span<const std::int64_t> indices,
                                                const EpochSeed& epoch) const override;

  [[nodiscard]] std::string path(std::int64_t index) const;
  [[nodiscard]] const ImageFolderIndex& index() const { return index_; }

 private:
  [[nodiscard]] std::int64_t label(std::int64_t index) const;

  ImageFolderIndex index_;
  std::optional<Compose> transform_;
  DecodeOptions decoding_;
  mutable RecycledMemory memory_;  // Of batches.
};

}  // namespace lockstep::data
