// A folder of image files as a data set: torchvision's ImageFolder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "lockstep/data/cache/folder_cache.h"
#include "lockstep/data/datasets/dataset.h"
#include "lockstep/data/decode/decode.h"
#include "lockstep/data/readers/bad_files.h"
#include "lockstep/data/readers/image_folder.h"
#include "lockstep/data/transforms/compose.h"
#include "lockstep/data/workers/recycled_memory.h"

namespace lockstep::data {

// How images are read.
struct ImageReading {
  DecodeOptions decoding;  // `fast` means nothing with a cache, which has exact pixels.
  // Where decoded images are kept for the next epoch, shared by the ranks of a host.
  CachePlace cache = CachePlace::kNone;
  std::string cache_folder;  // For kDisk.
  // Larger images are kept so reduced that their shorter side has this many pixels; 0: as they are.
  std::int64_t cache_shorter_side = 0;
  // How many files of a rank may be bad: the next good one takes such a file's place. -1: any.
  std::int64_t max_bad = 0;
  // The files that may take another one's place; empty: each. Where a part of the folder trains and
  // another one validates, neither may borrow from the other.
  std::function<bool(std::int64_t)> may_replace;
  // The class of what takes a bad file's place is kNotCounted, for scores: they are of the files
  // that can be read, and count none twice.
  bool marks_replacements = false;
};

// PyTorch's ignore_index: cross_entropy leaves out samples of this class.
inline constexpr std::int64_t kNotCounted = -100;

// Copies share the cache and the list of bad files.
class ImageFolder : public Dataset {
 public:
  // Images keep their sizes. Throws as FolderCache does if there is one, and UsageError if another
  // option makes no sense.
  explicit ImageFolder(ImageFolderIndex index, const ImageReading& reading = {});
  // What is random in `transform` follows from seed, epoch and index.
  ImageFolder(ImageFolderIndex index, Compose transform, const ImageReading& reading = {});

  [[nodiscard]] std::int64_t size() const override;

  // The image and its class, int64 []. Without a transform the image is uint8 [height, width, 3],
  // else float32 [3, height, width], as of epoch 0 with seed 0. In place of a file that cannot be
  // read or is no image come the next good one and its class. Throws IoError with paths and reasons
  // if there are more than `max_bad` such files.
  [[nodiscard]] Sample get(std::int64_t index) const override;
  [[nodiscard]] Sample get_in_epoch(std::int64_t index, const EpochSeed& epoch) const override;

  // Where all images become one size: each is written where it lies in the batch.
  [[nodiscard]] std::optional<Sample> get_batch(std::span<const std::int64_t> indices,
                                                const EpochSeed& epoch) const override;
  [[nodiscard]] bool shares_batches() const override { return true; }
  [[nodiscard]] std::unique_ptr<SharedBatch> start_batch(std::span<const std::int64_t> indices,
                                                         const EpochSeed& epoch) const override;

  [[nodiscard]] std::string path(std::int64_t index) const;
  [[nodiscard]] const ImageFolderIndex& index() const { return index_; }

  // The bad files that this process has met so far.
  [[nodiscard]] const BadFiles& bad_files() const { return *bad_files_; }

  // What was found, what was skipped, bad files, the state of the cache; for people.
  [[nodiscard]] std::string summary() const;
  [[nodiscard]] std::string cache_summary() const;  // "" without one.

 private:
  class Batch;
  // A file's bytes, of which a part may be decoded, or all pixels.
  using Picture = std::variant<std::string, CachedImage>;

  // Gives `use` the picture, or the one that takes its place; returns the index of it.
  std::int64_t read(std::int64_t index, const std::function<void(const Picture&)>& use) const;
  [[nodiscard]] Picture open(std::int64_t index, bool whole) const;
  // The label of the sample `index`, for which the file `taken` was read.
  [[nodiscard]] std::int64_t label(std::int64_t index, std::int64_t taken) const;

  ImageFolderIndex index_;
  std::optional<Compose> transform_;
  DecodeOptions decoding_;
  std::shared_ptr<FolderCache> cache_;  // Null without one.
  std::shared_ptr<BadFiles> bad_files_;
  std::function<bool(std::int64_t)> may_replace_;
  bool marks_replacements_ = false;
  mutable RecycledMemory memory_;  // Batches lie in it.
};

}  // namespace lockstep::data
