// Decoded images in one file that is mapped into memory, for whoever reads them more than once.
//
// Threads and processes of a host share the file: each image is decoded by whoever needs it first
// and is there for all from then on. A killed process leaves no partial entry, and an entry with a
// wrong checksum is not used.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/data/cache/mapped_cache_file.h"
#include "lockstep/data/decode/image.h"

namespace lockstep::data {

class ImageCache {
 public:
  // As MappedCacheFile().
  explicit ImageCache(ImageCacheOptions options);
  ImageCache(const ImageCache&) = delete;
  ImageCache& operator=(const ImageCache&) = delete;

  // Nothing if the image is not there or was found damaged. The view lasts as long as this object.
  [[nodiscard]] std::optional<ImageView> get(std::int64_t index);

  // Keeps a copy. False if the file has reached its limit, which is twice what was expected, or the
  // disk has no more room; from then on this process does not try again.
  bool put(std::int64_t index, ImageView image);

  // Why put() keeps no more; "" if it does.
  [[nodiscard]] std::string why_full() const;

  [[nodiscard]] const std::string& path() const { return file_.options().path; }
  [[nodiscard]] std::uint64_t used_bytes() const { return file_.used_bytes(); }

 private:
  void write_pixels(std::uint64_t offset, ImageView image) const;
  void remember(const std::string& why);

  MappedCacheFile file_;
  // Images whose checksum was right, or written here.
  std::unique_ptr<std::atomic<bool>[]> checked_;
  std::atomic<bool> full_ = false;
  mutable std::mutex mutex_;
  std::string why_full_;
};

}  // namespace lockstep::data
