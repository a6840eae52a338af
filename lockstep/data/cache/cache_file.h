// The bytes of a cache file, and how little of them is trusted.
//
//   header   one page: magic, key, number of images, limit, checksum of these; bytes in use
//   entries  32 bytes for each image
//   pixels   each image starts at a multiple of 64
//
// Numbers are little-endian. An entry is written before its offset, which makes it visible, so a
// writer that is killed leaves nothing or all. A checksum over an entry and its pixels is checked
// before they are first used: a machine that lost power may have kept the entry alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lockstep/data/decode/image.h"

namespace lockstep::data {

struct CacheHeader {
  std::uint64_t magic = 0;
  std::uint64_t key = 0;  // Names what is in the cache.
  std::uint64_t images = 0;
  std::uint64_t limit = 0;  // The file never becomes longer.
  std::uint32_t crc = 0;    // Over the numbers above.
  std::uint32_t unused = 0;
  std::uint64_t used = 0;      // Behind the last pixels; grows.
  std::uint64_t capacity = 0;  // What the disk has promised to hold; grows.
};

struct CacheEntry {
  std::uint64_t offset = 0;  // From the start of the file; 0: not there yet.
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t crc = 0;  // Over index, width, height and pixels.
  std::uint32_t unused[3] = {0, 0, 0};
};
static_assert(sizeof(CacheEntry) == 32);
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);

inline constexpr std::size_t kCacheHeaderBytes = 4096;

// The multiple of 64 at which pixels may begin that is not before `offset`.
constexpr std::uint64_t aligned_cache_offset(std::uint64_t offset) {
  constexpr std::uint64_t kAlignment = 64;
  return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

// Ready to be written, with room for no pixels yet.
CacheHeader make_cache_header(std::uint64_t key, std::uint64_t images, std::uint64_t limit);

// Where pixels begin; nothing if that is not a number that a file can have.
std::optional<std::uint64_t> cache_data_start(std::uint64_t images);

// The header of a file of this key and number of images; nothing if it is another, or damaged.
// Counters of it may grow meanwhile.
std::optional<CacheHeader> read_cache_header(std::span<const std::byte> file, std::uint64_t key,
                                             std::uint64_t images);

std::uint32_t cache_entry_crc(std::uint64_t index, ImageView pixels);

// The pixels of an image, if the entry says that they are there and lie inside of `capacity`. With
// `check`, the checksum must be right too.
std::optional<ImageView> read_cache_entry(std::span<const std::byte> file, std::uint64_t index,
                                          std::uint64_t capacity, bool check);

}  // namespace lockstep::data
