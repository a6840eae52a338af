#include "lockstep/data/datasets/image_folder_dataset.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>

#include <span>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"

namespace lockstep::data {
namespace {

// Larger files than this are no images of a data set.
constexpr std::size_t kMostFileBytes = std::size_t{1} << 30;

Image read_image(const std::string& path, const DecodeOptions& options) {
  const std::string file = read_file(path, kMostFileBytes);
  try {
    return decode_image(std::as_bytes(std::span(file)), options);
  } catch (const IoError& error) {
    throw IoError("image '" + path + "': " + error.what());
  }
}

at::Tensor as_tensor(Image image) {
  std::uint8_t* const pixels = image.pixels.release();
  return at::from_blob(
      pixels, {image.height, image.width, 3},
      [](void* memory) { delete[] static_cast<std::uint8_t*>(memory); },
      at::TensorOptions(at::kByte));
}

}  // namespace

ImageFolder::ImageFolder(ImageFolderIndex index, const DecodeOptions& decoding)
    : index_(std::move(index)), decoding_(decoding) {}

std::int64_t ImageFolder::size() const { return static_cast<std::int64_t>(index_.images.size()); }

Sample ImageFolder::get(std::int64_t index) const {
  const std::string file = path(index);
  return {as_tensor(read_image(file, decoding_)),
          at::scalar_tensor(index_.images[static_cast<std::size_t>(index)].label,
                            at::TensorOptions(at::kLong))};
}

std::string ImageFolder::path(std::int64_t index) const {
  require_index("ImageFolder", index, size());
  return index_.root + "/" + index_.images[static_cast<std::size_t>(index)].path;
}

}  // namespace lockstep::data
