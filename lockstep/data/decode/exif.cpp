#include "lockstep/data/decode/exif.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep::data {
namespace {

constexpr int kAsItIs = 1;

// Unsigned numbers at any place of some bytes; 0 behind their end.
class Numbers {
 public:
  Numbers(std::span<const std::byte> bytes, bool big_endian)
      : bytes_(bytes), big_endian_(big_endian) {}

  [[nodiscard]] std::size_t two(std::size_t at) const { return number(at, 2); }
  [[nodiscard]] std::size_t four(std::size_t at) const { return number(at, 4); }

 private:
  [[nodiscard]] std::size_t number(std::size_t at, std::size_t width) const {
    if (at > bytes_.size() || bytes_.size() - at < width) {
      return 0;
    }
    std::size_t value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      value =
          value << 8 | std::to_integer<std::size_t>(bytes_[at + (big_endian_ ? i : width - 1 - i)]);
    }
    return value;
  }

  std::span<const std::byte> bytes_;
  bool big_endian_;
};

bool starts_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// The TIFF structure inside the first APP1 segment that has one.
std::optional<std::span<const std::byte>> find_exif(std::span<const std::byte> jpeg) {
  constexpr std::string_view kName("Exif\0\0", 6);
  const Numbers numbers(jpeg, /*big_endian=*/true);
  std::size_t at = 2;
  while (at + 4 <= jpeg.size() && jpeg[at] == std::byte{0xff}) {
    const auto marker = std::to_integer<int>(jpeg[at + 1]);
    if (marker == 0xff) {  // Padding.
      ++at;
      continue;
    }
    const std::size_t length = numbers.two(at + 2);
    if (marker == 0xda || length < 2 || length > jpeg.size() - at - 2) {
      break;  // Pixels begin, or the segment is cut.
    }
    const auto content = jpeg.subspan(at + 4, length - 2);
    if (marker == 0xe1 && starts_with(content, kName)) {
      return content.subspan(kName.size());
    }
    at += 2 + length;
  }
  return std::nullopt;
}

// Where pixel (x, y) of the picture as meant is in the picture as stored.
std::pair<std::int64_t, std::int64_t> stored_place(const Image& stored, int orientation,
                                                   std::int64_t x, std::int64_t y) {
  const std::int64_t right = stored.width - 1;
  const std::int64_t bottom = stored.height - 1;
  switch (orientation) {
    case 2:
      return {right - x, y};
    case 3:
      return {right - x, bottom - y};
    case 4:
      return {x, bottom - y};
    case 5:
      return {y, x};
    case 6:
      return {y, bottom - x};
    case 7:
      return {right - y, bottom - x};
    case 8:
      return {right - y, x};
    default:
      return {x, y};
  }
}

}  // namespace

int exif_orientation(std::span<const std::byte> jpeg) {
  const auto tiff = find_exif(jpeg);
  if (!tiff || !(starts_with(*tiff, "MM") || starts_with(*tiff, "II"))) {
    return kAsItIs;
  }
  constexpr std::size_t kOrientationTag = 0x0112;
  constexpr std::size_t kEntryBytes = 12;
  const Numbers numbers(*tiff, starts_with(*tiff, "MM"));
  const std::size_t directory = numbers.four(4);
  const std::size_t entries = numbers.two(directory);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntryBytes;
    if (numbers.two(entry) == kOrientationTag) {
      const auto value = static_cast<int>(numbers.two(entry + 8));
      return value >= 1 && value <= 8 ? value : kAsItIs;
    }
  }
  return kAsItIs;
}

Image turn(Image image, int orientation) {
  if (orientation <= kAsItIs || orientation > 8) {
    return image;
  }
  const bool on_its_side = orientation >= 5;
  Image turned =
      make_image(on_its_side ? image.height : image.width, on_its_side ? image.width : image.height,
                 std::numeric_limits<std::int64_t>::max());
  for (std::int64_t y = 0; y < turned.height; ++y) {
    std::uint8_t* pixel = turned.row(y);
    for (std::int64_t x = 0; x < turned.width; ++x, pixel += 3) {
      const auto [from_x, from_y] = stored_place(image, orientation, x, y);
      std::copy_n(image.row(from_y) + from_x * 3, 3, pixel);
    }
  }
  return turned;
}

}  // namespace lockstep::data
