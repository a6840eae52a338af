#include "lockstep/data/cache/image_cache.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"

namespace lockstep::data {

ImageCache::ImageCache(ImageCacheOptions options)
    : file_(std::move(options)),
      checked_(
          std::make_unique<std::atomic<bool>[]>(static_cast<std::size_t>(file_.options().images))) {
}

std::optional<ImageView> ImageCache::get(std::int64_t index) {
  std::atomic<bool>& checked = checked_[static_cast<std::size_t>(index)];
  const bool check = !checked.load(std::memory_order_acquire);
  const auto view =
      read_cache_entry(file_.bytes(), static_cast<std::uint64_t>(index), file_.capacity(), check);
  if (view && check) {
    checked.store(true, std::memory_order_release);
  }
  return view;
}

bool ImageCache::put(std::int64_t index, ImageView image) {
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(image.width) * 3 * static_cast<std::uint64_t>(image.height);
  const std::uint64_t taken = aligned_cache_offset(bytes);
  if (full_.load(std::memory_order_relaxed)) {
    return false;
  }
  const std::atomic_ref used(file_.header().used);
  // A smaller one may still fit.
  if (used.load(std::memory_order_acquire) + taken > file_.limit()) {
    remember("it has reached its limit of " + size_text(file_.limit()));
    return false;
  }
  const std::uint64_t offset = used.fetch_add(taken, std::memory_order_relaxed);
  if (offset + taken > file_.limit()) {
    return false;
  }
  try {
    file_.reserve(offset + taken);
    write_pixels(offset, image);
  } catch (const IoError& error) {
    remember(error.what());
    full_.store(true, std::memory_order_relaxed);
    return false;
  }
  // If another process writes this entry, it writes the same, except for the offset.
  CacheEntry& to = file_.entry(index);
  std::atomic_ref(to.width).store(static_cast<std::uint32_t>(image.width),
                                  std::memory_order_relaxed);
  std::atomic_ref(to.height).store(static_cast<std::uint32_t>(image.height),
                                   std::memory_order_relaxed);
  std::atomic_ref(to.crc).store(cache_entry_crc(static_cast<std::uint64_t>(index), image),
                                std::memory_order_relaxed);
  std::atomic_ref(to.offset).store(offset, std::memory_order_release);
  checked_[static_cast<std::size_t>(index)].store(true, std::memory_order_release);
  return true;
}

void ImageCache::write_pixels(std::uint64_t offset, ImageView image) const {
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * 3;
  const bool whole = image.row_bytes == row_bytes;
  const std::int64_t pieces = whole ? 1 : image.height;
  const std::size_t bytes = whole ? row_bytes * static_cast<std::size_t>(image.height) : row_bytes;
  for (std::int64_t y = 0; y < pieces; ++y, offset += bytes) {
    file_.write(offset, {image.row(y), bytes});
  }
}

void ImageCache::remember(const std::string& why) {
  const std::lock_guard lock(mutex_);
  why_full_ = why;
}

std::string ImageCache::why_full() const {
  const std::lock_guard lock(mutex_);
  return why_full_;
}

}  // namespace lockstep::data
