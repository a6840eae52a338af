// The images of a folder, decoded once: from a cache in memory or on the disk, where they are, and
// else from their files.
//
// The cache belongs to the folder as it is: a file that was added, removed or changed makes another
// one, as do other versions of the decoders, and the old one is removed. What is in it is what
// decode_image() gives, so the numbers are the same with and without it; with `shorter_side`, those
// of Resize{shorter_side} before all else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/data/cache/image_cache.h"
#include "lockstep/data/decode/decode.h"
#include "lockstep/data/readers/image_folder.h"

namespace lockstep::data {

enum class CachePlace { kNone, kRam, kDisk };

struct FolderCacheOptions {
  CachePlace place = CachePlace::kRam;
  // Where the file goes. Memory: /dev/shm, and it is removed with its last user.
  std::string folder;
  // Larger images are reduced so that their shorter side has so many pixels; 0: they stay.
  std::int64_t shorter_side = 0;
  DecodeOptions decoding;
};

// Pixels in the cache, or own ones.
struct CachedImage {
  Image own;
  ImageView view;
};

class FolderCache {
 public:
  // Looks at the date and size of every file, and decodes a few to know how much room is needed.
  // Throws IoError if there is too little of it, and UsageError if there is no place to write to.
  FolderCache(ImageFolderIndex index, const FolderCacheOptions& options);

  // From the cache, or decoded and kept, as long as there is room. Threads may call it at the same
  // time. Throws IoError naming the file if it is no image; never because of the cache.
  [[nodiscard]] CachedImage get(std::int64_t index);

  [[nodiscard]] const ImageCache& cache() const { return *cache_; }

  // Where the cache is, how much is in it and, if it keeps no more, why; for people.
  [[nodiscard]] std::string summary() const;

 private:
  [[nodiscard]] Image decode(std::int64_t index) const;
  [[nodiscard]] std::uint64_t expected_bytes() const;

  ImageFolderIndex index_;
  FolderCacheOptions options_;
  std::unique_ptr<ImageCache> cache_;
};

// Changes with any path, size, date or inode of a file of the index, and with the decoders.
std::uint64_t folder_key(const ImageFolderIndex& index,
                         const std::string& decoders = decoder_versions());

}  // namespace lockstep::data
