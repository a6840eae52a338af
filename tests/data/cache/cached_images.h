// Images for tests of a cache, each with pixels of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "lockstep/data/cache/image_cache.h"
#include "tests/data/pictures.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {

inline constexpr std::int64_t kCachedImages = 40;

// No two begin alike.
inline Image image_of(std::int64_t index) {
  Image image = test_picture({10 + index, 20});
  for (std::size_t i = 0; i < image.bytes(); ++i) {
    image.pixels[i] ^= static_cast<std::uint8_t>(index);
  }
  return image;
}

inline ImageCacheOptions options_of(const test::TemporaryFolder& folder,
                                    std::uint64_t bytes = 1 << 20) {
  return {.path = folder.file("cache"), .key = 7, .images = kCachedImages, .bytes = bytes};
}

// How many images are there; each must be right.
inline int right_images(ImageCache& cache) {
  int found = 0;
  for (std::int64_t i = 0; i < kCachedImages; ++i) {
    if (const auto view = cache.get(i)) {
      EXPECT_EQ(view_text(*view), pixels_text(image_of(i))) << i;
      ++found;
    }
  }
  return found;
}

}  // namespace lockstep::data
