// Whatever is in a cache file: an image lies inside of it, and is what its checksum says.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "lockstep/data/cache/cache_file.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::data;
  constexpr std::uint64_t kKey = 7;
  constexpr std::uint64_t kImages = 2;
  (void)read_cache_header(std::as_bytes(std::span(data, size)), kKey, kImages);
  // Behind a sound header: two entries, and pixels where a file has them.
  constexpr std::size_t kStart = 2 * kCacheHeaderBytes;
  constexpr std::size_t kEntries = kImages * sizeof(CacheEntry);
  std::vector<std::uint64_t> words((kStart + size) / 8 + 1);  // Aligned, as what is mapped is.
  auto* const bytes = reinterpret_cast<std::byte*>(words.data());
  CacheHeader made = make_cache_header(kKey, kImages, 1 << 20);
  made.capacity = kStart + (size > kEntries ? size - kEntries : 0);
  std::memcpy(bytes, &made, sizeof made);
  std::memcpy(bytes + kCacheHeaderBytes, data, std::min(size, kEntries));
  if (size > kEntries) {
    std::memcpy(bytes + kStart, data + kEntries, size - kEntries);
  }
  const auto file = std::as_bytes(std::span(words)).first(made.capacity);
  const auto header = read_cache_header(file, kKey, kImages);
  if (!header) {
    std::abort();
  }
  std::uint32_t sum = 0;
  for (std::uint64_t i = 0; i < kImages; ++i) {
    for (const bool check : {false, true}) {
      if (const auto view = read_cache_entry(file, i, header->capacity, check)) {
        sum += cache_entry_crc(i, *view);  // Reads every pixel.
      }
    }
  }
  volatile std::uint32_t keep = sum;
  (void)keep;
  return 0;
}
