#include "lockstep/data/cache/cache_file.h"

#include <array>
#include <cstring>

#include "lockstep/base/crc32c/crc32c.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t kMagic = 0x31'68'63'61'63'74'73'6c;  // "lstcach1"
constexpr std::uint64_t kMostImages = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostSide = std::uint64_t{1} << 31;

std::uint32_t header_crc(const CacheHeader& header) {
  const std::array<std::uint64_t, 4> numbers = {header.magic, header.key, header.images,
                                                header.limit};
  return crc32c(std::as_bytes(std::span(numbers)));
}

}  // namespace

CacheHeader make_cache_header(std::uint64_t key, std::uint64_t images, std::uint64_t limit) {
  CacheHeader header{.magic = kMagic, .key = key, .images = images, .limit = limit};
  header.crc = header_crc(header);
  header.used = cache_data_start(images).value_or(0);
  return header;
}

std::optional<std::uint64_t> cache_data_start(std::uint64_t images) {
  if (images > kMostImages) {
    return std::nullopt;
  }
  const std::uint64_t bytes = kCacheHeaderBytes + images * sizeof(CacheEntry);
  return (bytes + kCacheHeaderBytes - 1) / kCacheHeaderBytes * kCacheHeaderBytes;
}

std::optional<CacheHeader> read_cache_header(std::span<const std::byte> file, std::uint64_t key,
                                             std::uint64_t images) {
  CacheHeader header;
  if (file.size() < kCacheHeaderBytes) {
    return std::nullopt;
  }
  std::memcpy(&header, file.data(), sizeof header);
  const auto start = cache_data_start(header.images);
  if (header.magic != kMagic || header.crc != header_crc(header) || header.key != key ||
      header.images != images || !start || header.limit < *start || header.used < *start ||
      header.capacity > header.limit || header.capacity < *start) {
    return std::nullopt;
  }
  return header;
}

std::uint32_t cache_entry_crc(std::uint64_t index, ImageView pixels) {
  const std::array<std::uint64_t, 3> numbers = {index, static_cast<std::uint64_t>(pixels.width),
                                                static_cast<std::uint64_t>(pixels.height)};
  std::uint32_t crc = crc32c(std::as_bytes(std::span(numbers)));
  for (std::int64_t y = 0; y < pixels.height; ++y) {
    crc = extend_crc32c(
        crc, std::as_bytes(std::span(pixels.row(y), static_cast<std::size_t>(pixels.width) * 3)));
  }
  return crc;
}

std::optional<ImageView> read_cache_entry(std::span<const std::byte> file, std::uint64_t index,
                                          std::uint64_t capacity, bool check) {
  // Another process may write the entry just now: numbers are read once, the offset first.
  auto* const bytes = const_cast<std::byte*>(file.data()) + kCacheHeaderBytes;
  CacheEntry& entry = reinterpret_cast<CacheEntry*>(bytes)[index];
  const std::uint64_t offset = std::atomic_ref(entry.offset).load(std::memory_order_acquire);
  if (offset == 0) {
    return std::nullopt;
  }
  const std::uint64_t width = std::atomic_ref(entry.width).load(std::memory_order_relaxed);
  const std::uint64_t height = std::atomic_ref(entry.height).load(std::memory_order_relaxed);
  const std::uint32_t crc = std::atomic_ref(entry.crc).load(std::memory_order_relaxed);
  if (width == 0 || height == 0 || width > kMostSide || height > kMostSide ||
      capacity > file.size() || offset > capacity || offset < kCacheHeaderBytes ||
      height > (capacity - offset) / (width * 3)) {
    return std::nullopt;
  }
  ImageView view;
  view.pixels = reinterpret_cast<const std::uint8_t*>(file.data() + offset);
  view.width = static_cast<std::int64_t>(width);
  view.height = static_cast<std::int64_t>(height);
  view.row_bytes = static_cast<std::size_t>(width) * 3;
  if (check && cache_entry_crc(index, view) != crc) {
    return std::nullopt;
  }
  return view;
}

}  // namespace lockstep::data
