// Transforms one after another, from a picture or its file to the model's floats:
//
//   const Compose train({RandomResizedCrop{.size = 224}, RandomHorizontalFlip{}, ToTensor{},
//                        Normalize{.mean = kImageNetMean, .std = kImageNetStd}});
//
// A crop that comes first is taken from the file without decoding the rest; resizing, flips and
// normalising behind it write the floats directly. The numbers are those of one step after another.
// Threads may share one object.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/data/decode/decode.h"
#include "lockstep/data/transforms/normalize.h"
#include "lockstep/data/transforms/transforms.h"

namespace lockstep::data {

inline constexpr std::array<float, 3> kImageNetMean = {0.485F, 0.456F, 0.406F};
inline constexpr std::array<float, 3> kImageNetStd = {0.229F, 0.224F, 0.225F};

class LazyImage;

class Compose {
 public:
  // Throws UsageError if a parameter makes no sense, or unless ToTensor is there once, behind all
  // that work on bytes and before Normalize and RandomErasing.
  explicit Compose(std::vector<Transform> transforms);

  // The size of every result, or nothing if it depends on the picture.
  [[nodiscard]] std::optional<Size> output_size() const { return output_size_; }

  // Writes 3 x height x width floats; only where output_size() is known, and `out` has that many.
  // Throws UsageError for a picture that a transform cannot take (smaller than a RandomCrop).
  void apply(ImageView image, SampleRandom random, std::span<float> out) const;

  // The same for a file. Throws IoError saying what is wrong with the bytes.
  void apply_to_file(std::span<const std::byte> file, const DecodeOptions& decoding,
                     SampleRandom random, std::span<float> out) const;

  // For results of any size.
  [[nodiscard]] FloatImage apply(ImageView image, SampleRandom random) const;
  [[nodiscard]] FloatImage apply_to_file(std::span<const std::byte> file,
                                         const DecodeOptions& decoding, SampleRandom random) const;

 private:
  // Throws if the pictures can have different sizes, or `out` another one.
  void require_room(std::span<float> out) const;
  // Transforms of bytes from `first` on.
  void run(LazyImage& image, std::size_t first, SampleRandom& random) const;
  LazyImage run_on_file(std::span<const std::byte> file, const DecodeOptions& decoding,
                        SampleRandom& random) const;
  void finish(const LazyImage& image, SampleRandom& random, std::span<float> out) const;
  [[nodiscard]] FloatImage finish(const LazyImage& image, SampleRandom& random) const;

  std::vector<Transform> on_bytes_;
  NormalizeTable table_;
  std::vector<Transform> on_floats_;
  std::optional<Size> output_size_;
};

}  // namespace lockstep::data
