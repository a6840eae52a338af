// Decoded images in one file that is mapped into memory, for whoever reads them more than once.
//
// Threads and processes of a host share the file: each image is decoded by whoever needs it first
// and is there for all from then on. Whoever is killed meanwhile leaves nothing half done, and no
// image is used whose checksum is wrong. Room on the disk is reserved before it is written, and
// pixels are written with pwrite(): a full disk is an answer then, not a signal.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/base/fd.h"
#include "lockstep/data/cache/cache_file.h"
#include "lockstep/data/decode/image.h"

namespace lockstep::data {

struct ImageCacheOptions {
  std::string path;
  std::uint64_t key = 0;    // A file of another key is not taken over but written anew.
  std::int64_t images = 0;  // Indices are smaller.
  std::uint64_t bytes = 0;  // What pixels will take, about; reserved at once.
  // The disk is memory: the last process that closes the file removes it, and it grows only where
  // this process may take as much. So it is made only where there is as much.
  bool in_memory = false;
};

class ImageCache {
 public:
  // Takes over what is in the file, or writes a new one. Throws IoError naming the path if there is
  // no room, if the file belongs to another user, or if it is damaged while others use it.
  explicit ImageCache(ImageCacheOptions options);
  ~ImageCache();
  ImageCache(const ImageCache&) = delete;
  ImageCache& operator=(const ImageCache&) = delete;

  // Nothing if the image is not there or was found damaged. The view lasts as long as this object.
  [[nodiscard]] std::optional<ImageView> get(std::int64_t index);

  // Keeps a copy. False if the file has reached its limit, which is twice what was expected, or the
  // disk has no more room; from then on this process does not try again.
  bool put(std::int64_t index, ImageView image);

  // Why put() keeps no more; "" if it does.
  [[nodiscard]] std::string why_full() const;

  [[nodiscard]] const std::string& path() const { return options_.path; }
  [[nodiscard]] std::uint64_t used_bytes() const;  // In the file.

 private:
  void open_file();
  void take_over_or_create();
  [[nodiscard]] bool is_usable();
  void require_memory(std::uint64_t bytes) const;
  void create();
  void map();
  void give_back() const;
  void raise_used() const;
  void reserve(std::uint64_t end);
  void write_pixels(std::uint64_t offset, ImageView image) const;
  void remember(const std::string& why);
  [[nodiscard]] CacheHeader& header() const;
  [[nodiscard]] CacheEntry& entry(std::int64_t index) const;
  [[nodiscard]] std::span<const std::byte> file() const { return {memory_, limit_}; }
  // After a lock was not given; `if_held` is what to say if that is because others hold it.
  [[noreturn]] void refuse_lock(const std::string& if_held) const;
  [[noreturn]] void refuse(const std::string& what) const;

  ImageCacheOptions options_;
  std::uint64_t limit_ = 0;
  UniqueFd fd_;
  const pid_t owner_ = ::getpid();
  std::byte* memory_ = nullptr;
  // Images whose checksum was right, or written here.
  std::unique_ptr<std::atomic<bool>[]> checked_;
  std::atomic<bool> full_ = false;
  mutable std::mutex mutex_;
  std::string why_full_;
};

}  // namespace lockstep::data
