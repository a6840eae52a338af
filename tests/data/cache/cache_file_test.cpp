#include "lockstep/data/cache/cache_file.h"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "tests/data/pictures.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t kKey = 7;

// A file with the second of two images in it.
class CacheBytes {
 public:
  CacheBytes() : bytes_(8192 + 4096) {
    CacheHeader header = make_cache_header(kKey, 2, 1 << 20);
    header.capacity = bytes_.size();
    std::memcpy(bytes_.data(), &header, sizeof header);
    const Image image = test_picture({3, 5});
    std::memcpy(bytes_.data() + 8192, image.pixels.get(), image.bytes());
    const CacheEntry entry{
        .offset = 8192, .width = 5, .height = 3, .crc = cache_entry_crc(1, image)};
    std::memcpy(bytes_.data() + kCacheHeaderBytes + sizeof entry, &entry, sizeof entry);
  }

  std::byte& operator[](std::size_t at) { return bytes_[at]; }
  [[nodiscard]] std::span<const std::byte> span() const { return bytes_; }
  [[nodiscard]] std::optional<ImageView> image(std::uint64_t index, bool check = true) const {
    return read_cache_entry(bytes_, index, bytes_.size(), check);
  }

 private:
  std::vector<std::byte> bytes_;
};

TEST(CacheFile, HasWhatWasWritten) {
  const CacheBytes file;
  EXPECT_EQ(cache_data_start(2), 8192U);
  ASSERT_TRUE(read_cache_header(file.span(), kKey, 2));
  EXPECT_FALSE(file.image(0));
  const auto view = file.image(1);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->size(), Size(3, 5));
  EXPECT_EQ(std::memcmp(view->pixels, test_picture({3, 5}).pixels.get(), 45), 0);
}

TEST(CacheFile, AHeaderOfAnotherSetIsNotTaken) {
  const CacheBytes file;
  EXPECT_FALSE(read_cache_header(file.span(), kKey + 1, 2));
  EXPECT_FALSE(read_cache_header(file.span(), kKey, 3));
  EXPECT_FALSE(read_cache_header(file.span().first(4095), kKey, 2));
  EXPECT_FALSE(read_cache_header({}, kKey, 2));
}

TEST(CacheFile, AnyChangedByteOfTheHeaderIsNoticed) {
  for (std::size_t i = 0; i < 36; ++i) {
    CacheBytes file;
    file[i] ^= std::byte{1};
    EXPECT_FALSE(read_cache_header(file.span(), kKey, 2)) << i;
  }
}

// Nothing torn is accepted: neither pixels nor what says where they are.
TEST(CacheFile, AnyChangedByteOfAnImageIsNoticed) {
  for (std::size_t i = 0; i < 45; ++i) {
    CacheBytes file;
    file[8192 + i] ^= std::byte{0x10};
    EXPECT_FALSE(file.image(1)) << i;
    EXPECT_TRUE(file.image(1, /*check=*/false)) << i;
  }
  for (std::size_t i = 0; i < 20; ++i) {
    CacheBytes file;
    file[kCacheHeaderBytes + 32 + i] ^= std::byte{1};
    EXPECT_FALSE(file.image(1)) << i;
  }
}

TEST(CacheFile, AnEntryMustLieInsideOfTheFile) {
  const auto with_entry = [](const CacheEntry& entry) {
    CacheBytes file;
    std::memcpy(&file[kCacheHeaderBytes], &entry, sizeof entry);
    return file.image(0, /*check=*/false).has_value();
  };
  EXPECT_TRUE(with_entry({.offset = 8192, .width = 1, .height = 1365}));
  EXPECT_FALSE(with_entry({.offset = 8192, .width = 1, .height = 1366}));
  EXPECT_FALSE(with_entry({.offset = 12285, .width = 2, .height = 1}));
  EXPECT_FALSE(with_entry({.offset = ~std::uint64_t{0}, .width = 1, .height = 1}));
  EXPECT_FALSE(with_entry({.offset = 8192, .width = ~0U, .height = ~0U}));
  EXPECT_FALSE(with_entry({.offset = 8192, .width = 0, .height = 1}));
  EXPECT_FALSE(with_entry({.offset = 64, .width = 1, .height = 1}));
}

TEST(CacheFile, TooManyImagesAreNoFile) {
  EXPECT_EQ(cache_data_start(~std::uint64_t{0}), std::nullopt);
}

}  // namespace
}  // namespace lockstep::data
