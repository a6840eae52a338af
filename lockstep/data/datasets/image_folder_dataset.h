// A folder of image files as a data set: torchvision's ImageFolder, without transforms.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/data/datasets/dataset.h"
#include "lockstep/data/decode/decode.h"
#include "lockstep/data/readers/image_folder.h"

namespace lockstep::data {

// Reads and decodes a file on each get(). Images keep their sizes.
class ImageFolder : public Dataset {
 public:
  explicit ImageFolder(ImageFolderIndex index, const DecodeOptions& decoding = {});

  [[nodiscard]] std::int64_t size() const override;

  // uint8 [height, width, 3] and the class, int64 []. Throws IoError with the path if the file
  // cannot be read or is no image.
  [[nodiscard]] Sample get(std::int64_t index) const override;

  [[nodiscard]] std::string path(std::int64_t index) const;
  [[nodiscard]] const ImageFolderIndex& index() const { return index_; }

 private:
  ImageFolderIndex index_;
  DecodeOptions decoding_;
};

}  // namespace lockstep::data
