#include "lockstep/data/datasets/image_folder_dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/error_place.h"
#include "lockstep/data/readers/image_file.h"

namespace lockstep::data {
namespace {

SampleRandom random_of(const EpochSeed& epoch, std::int64_t index) {
  return {epoch.seed, static_cast<std::uint64_t>(epoch.epoch), static_cast<std::uint64_t>(index)};
}

std::span<const std::byte> bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

at::Tensor as_tensor(Image image) {
  std::uint8_t* const pixels = image.pixels.release();
  return at::from_blob(
      pixels, {image.height, image.width, 3},
      [](void* memory) { delete[] static_cast<std::uint8_t*>(memory); },
      at::TensorOptions(at::kByte));
}

at::Tensor as_tensor(ImageView image) {
  at::Tensor tensor = at::empty({image.height, image.width, 3}, at::kByte);
  auto* to = tensor.mutable_data_ptr<std::uint8_t>();
  for (std::int64_t y = 0; y < image.height; ++y) {
    to = std::copy_n(image.row(y), image.width * 3, to);
  }
  return tensor;
}

at::Tensor as_tensor(FloatImage image) {
  float* const values = image.values.release();
  return at::from_blob(
      values, {3, image.size.height, image.size.width},
      [](void* memory) { delete[] static_cast<float*>(memory); }, at::TensorOptions(at::kFloat));
}

std::shared_ptr<FolderCache> make_cache(const ImageFolderIndex& index,
                                        const ImageReading& reading) {
  if (reading.cache_shorter_side < 0 || reading.max_bad < -1) {
    throw UsageError("ImageFolder: cache_shorter_side is " +
                     std::to_string(reading.cache_shorter_side) + " and max_bad is " +
                     std::to_string(reading.max_bad) + ", expected 0 or more, and -1 or more");
  }
  if (reading.cache == CachePlace::kNone) {
    if (!reading.cache_folder.empty() || reading.cache_shorter_side != 0) {
      throw UsageError(
          "ImageFolder: cache_folder or cache_shorter_side is given without a cache, expected "
          "cache to be kRam or kDisk; without it images are not reduced");
    }
    return nullptr;
  }
  return std::make_shared<FolderCache>(
      index, FolderCacheOptions{.place = reading.cache,
                                .folder = reading.cache_folder,
                                .shorter_side = reading.cache_shorter_side,
                                .decoding = reading.decoding});
}

}  // namespace

ImageFolder::ImageFolder(ImageFolderIndex index, const ImageReading& reading)
    : index_(std::move(index)),
      decoding_(reading.decoding),
      cache_(make_cache(index_, reading)),
      bad_files_(std::make_shared<BadFiles>(reading.max_bad)),
      may_replace_(reading.may_replace),
      marks_replacements_(reading.marks_replacements) {}

ImageFolder::ImageFolder(ImageFolderIndex index, Compose transform, const ImageReading& reading)
    : ImageFolder(std::move(index), reading) {
  transform_ = std::move(transform);
}

std::int64_t ImageFolder::size() const { return static_cast<std::int64_t>(index_.images.size()); }

ImageFolder::Picture ImageFolder::open(std::int64_t index, bool whole) const {
  if (cache_) {
    return cache_->get(index);
  }
  std::string file = read_image_file(path(index));
  if (!whole) {
    return file;
  }
  CachedImage pixels{.own = decode_image(bytes_of(file), decoding_), .view = {}};
  pixels.view = pixels.own;
  return pixels;
}

std::int64_t ImageFolder::read(std::int64_t index,
                               const std::function<void(const Picture&)>& use) const {
  const auto read_one = [&](std::int64_t i, bool whole) {
    const auto place = [&] { return "image '" + path(i) + "': "; };
    bool is_named = cache_ != nullptr;  // The cache names files that it cannot read.
    try {
      const Picture picture = open(i, whole);
      is_named = false;
      use(picture);
      return i;
    } catch (const NotTheFile& error) {
      throw NotTheFile((is_named ? "" : place()) + error.what());
    } catch (const IoError& error) {
      throw IoError((is_named ? "" : place()) + error.what());
    } catch (...) {  // A transform's, or there is no memory.
      rethrow_with_place(place());
    }
  };
  require_index("ImageFolder", index, size());
  // Damage outside of a random part is not seen. What replaces a file must be good as a whole, else
  // it would depend on the part, and on who met it before.
  return read_or_replace(
      index, size(), *bad_files_, [&](std::int64_t i) { return read_one(i, /*whole=*/false); },
      [&](std::int64_t i) { return read_one(i, /*whole=*/true); },
      [&](std::int64_t i) { return path(i); }, may_replace_);
}

Sample ImageFolder::get(std::int64_t index) const { return get_in_epoch(index, {}); }

Sample ImageFolder::get_in_epoch(std::int64_t index, const EpochSeed& epoch) const {
  at::Tensor image;
  const std::int64_t taken = read(index, [&](const Picture& picture) {
    const auto* file = std::get_if<std::string>(&picture);
    const ImageView pixels = file != nullptr ? ImageView() : std::get<CachedImage>(picture).view;
    if (!transform_) {
      image =
          file != nullptr ? as_tensor(decode_image(bytes_of(*file), decoding_)) : as_tensor(pixels);
      return;
    }
    const SampleRandom random = random_of(epoch, index);
    image =
        as_tensor(file != nullptr ? transform_->apply_to_file(bytes_of(*file), decoding_, random)
                                  : transform_->apply(pixels, random));
  });
  return {std::move(image), at::scalar_tensor(label(index, taken), at::TensorOptions(at::kLong))};
}

// Each image is written where it lies in the batch.
class ImageFolder::Batch : public SharedBatch {
 public:
  Batch(const ImageFolder& images, std::span<const std::int64_t> indices, const EpochSeed& epoch)
      : images_(images), indices_(indices.begin(), indices.end()), epoch_(epoch) {
    const auto count = static_cast<std::int64_t>(indices_.size());
    const Size size = *images.transform_->output_size();
    floats_ = static_cast<std::size_t>(3 * size.height * size.width);
    const auto block = images.memory_.take(indices_.size() * floats_ * sizeof(float));
    batch_.data = at::from_blob(
        block.get(), {count, 3, size.height, size.width}, [block](void*) {},
        at::TensorOptions(at::kFloat));
    batch_.target = at::empty({count}, at::kLong);
    floats_of_all_ = batch_.data.mutable_data_ptr<float>();
    targets_ = batch_.target.mutable_data_ptr<std::int64_t>();
  }

  void make(std::size_t place) override {
    const std::int64_t index = indices_[place];
    const SampleRandom random = random_of(epoch_, index);
    const std::span<float> out(floats_of_all_ + place * floats_, floats_);
    const auto write = [&](const Picture& picture) {
      if (const auto* file = std::get_if<std::string>(&picture)) {
        images_.transform_->apply_to_file(bytes_of(*file), images_.decoding_, random, out);
      } else {
        images_.transform_->apply(std::get<CachedImage>(picture).view, random, out);
      }
    };
    targets_[place] = images_.label(index, images_.read(index, write));
  }

  Sample finish() override { return std::move(batch_); }

 private:
  const ImageFolder& images_;
  std::vector<std::int64_t> indices_;
  EpochSeed epoch_;
  std::size_t floats_ = 0;  // In an image.
  Sample batch_;
  float* floats_of_all_ = nullptr;
  std::int64_t* targets_ = nullptr;
};

std::unique_ptr<SharedBatch> ImageFolder::start_batch(std::span<const std::int64_t> indices,
                                                      const EpochSeed& epoch) const {
  const bool has_one_size = transform_ && transform_->output_size();
  return has_one_size ? std::make_unique<Batch>(*this, indices, epoch) : nullptr;
}

std::optional<Sample> ImageFolder::get_batch(std::span<const std::int64_t> indices,
                                             const EpochSeed& epoch) const {
  const auto batch = start_batch(indices, epoch);
  if (!batch) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    with_place([&] { return "sample " + std::to_string(indices[i]) + ": "; },
               [&] { batch->make(i); });
  }
  return batch->finish();
}

std::int64_t ImageFolder::label(std::int64_t index, std::int64_t taken) const {
  if (marks_replacements_ && taken != index) {
    return kNotCounted;
  }
  return index_.images[static_cast<std::size_t>(taken)].label;
}

std::string ImageFolder::path(std::int64_t index) const {
  require_index("ImageFolder", index, size());
  return index_.root + "/" + index_.images[static_cast<std::size_t>(index)].path;
}

std::string ImageFolder::summary() const {
  std::string text = index_.summary();
  if (const std::string bad = bad_files_->summary(); !bad.empty()) {
    text += "\n" + bad;
  }
  return cache_ ? text + "\n" + cache_->summary() : text;
}

std::string ImageFolder::cache_summary() const { return cache_ ? cache_->summary() : ""; }

}  // namespace lockstep::data
