#include "lockstep/data/datasets/image_folder_dataset.h"

#include <ATen/ops/empty.h>
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

// What `use` makes of the file's bytes; errors say where, and name the path.
template <class Use>
auto with_file(const std::string& where, const std::string& path, const Use& use) {
  try {
    const std::string file = read_file(path, kMostFileBytes);
    return use(std::as_bytes(std::span(file)));
  } catch (const IoError& error) {
    throw IoError(where + "image '" + path + "': " + error.what());
  } catch (const UsageError& error) {  // Of a transform.
    throw UsageError(where + "image '" + path + "': " + error.what());
  }
}

SampleRandom random_of(const EpochSeed& epoch, std::int64_t index) {
  return {epoch.seed, static_cast<std::uint64_t>(epoch.epoch), static_cast<std::uint64_t>(index)};
}

at::Tensor as_tensor(Image image) {
  std::uint8_t* const pixels = image.pixels.release();
  return at::from_blob(
      pixels, {image.height, image.width, 3},
      [](void* memory) { delete[] static_cast<std::uint8_t*>(memory); },
      at::TensorOptions(at::kByte));
}

at::Tensor as_tensor(FloatImage image) {
  float* const values = image.values.release();
  return at::from_blob(
      values, {3, image.size.height, image.size.width},
      [](void* memory) { delete[] static_cast<float*>(memory); }, at::TensorOptions(at::kFloat));
}

}  // namespace

ImageFolder::ImageFolder(ImageFolderIndex index, const DecodeOptions& decoding)
    : index_(std::move(index)), decoding_(decoding) {}

ImageFolder::ImageFolder(ImageFolderIndex index, Compose transform, const DecodeOptions& decoding)
    : index_(std::move(index)), transform_(std::move(transform)), decoding_(decoding) {}

std::int64_t ImageFolder::size() const { return static_cast<std::int64_t>(index_.images.size()); }

Sample ImageFolder::get(std::int64_t index) const { return get_in_epoch(index, {}); }

Sample ImageFolder::get_in_epoch(std::int64_t index, const EpochSeed& epoch) const {
  at::Tensor image = with_file("", path(index), [&](std::span<const std::byte> file) {
    return transform_
               ? as_tensor(transform_->apply_to_file(file, decoding_, random_of(epoch, index)))
               : as_tensor(decode_image(file, decoding_));
  });
  return {std::move(image), at::scalar_tensor(label(index), at::TensorOptions(at::kLong))};
}

std::optional<Sample> ImageFolder::get_batch(std::span<const std::int64_t> indices,
                                             const EpochSeed& epoch) const {
  const auto size_of_all = transform_ ? transform_->output_size() : std::nullopt;
  if (!size_of_all) {
    return std::nullopt;
  }
  const auto count = static_cast<std::int64_t>(indices.size());
  const auto floats = static_cast<std::size_t>(3 * size_of_all->height * size_of_all->width);
  const auto block = memory_.take(indices.size() * floats * sizeof(float));
  Sample batch{at::from_blob(
                   block.get(), {count, 3, size_of_all->height, size_of_all->width},
                   [block](void*) {}, at::TensorOptions(at::kFloat)),
               at::empty({count}, at::kLong)};
  float* image = batch.data.mutable_data_ptr<float>();
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    with_file("sample " + std::to_string(index) + ": ", path(index),
              [&](std::span<const std::byte> file) {
                transform_->apply_to_file(file, decoding_, random_of(epoch, index),
                                          {image, floats});
              });
    image += floats;
    *target++ = label(index);
  }
  return batch;
}

std::int64_t ImageFolder::label(std::int64_t index) const {
  return index_.images[static_cast<std::size_t>(index)].label;
}

std::string ImageFolder::path(std::int64_t index) const {
  require_index("ImageFolder", index, size());
  return index_.root + "/" + index_.images[static_cast<std::size_t>(index)].path;
}

}  // namespace lockstep::data
