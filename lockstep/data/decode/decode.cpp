#include "lockstep/data/decode/decode.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/decode/exif.h"
#include "lockstep/data/decode/jpeg.h"
#include "lockstep/data/decode/png.h"
#include "lockstep/data/decode/pnm.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kFewestBytes = 8;  // As many as the longest signature, that of PNG.

template <std::size_t N>
bool has_signature(std::span<const std::byte> file, const std::array<std::uint8_t, N>& signature) {
  return file.size() >= N && std::equal(signature.begin(), signature.end(), file.begin(),
                                        [](auto a, auto b) { return std::byte{a} == b; });
}

std::string first_bytes(std::span<const std::byte> file) {
  return "'" + printable_name({reinterpret_cast<const char*>(file.data()), 4}) + "'";
}

ImageFormat require_format(std::span<const std::byte> file) {
  if (file.size() < kFewestBytes) {
    throw IoError("the file has " + std::to_string(file.size()) + " bytes, expected an image");
  }
  const auto format = image_format(file);
  if (!format) {
    throw IoError("the file starts with " + first_bytes(file) +
                  " and is not JPEG, PNG, PGM or PPM, expected one of them");
  }
  return *format;
}

}  // namespace

std::optional<ImageFormat> image_format(std::span<const std::byte> file) {
  if (has_signature<3>(file, {0xff, 0xd8, 0xff})) {
    return ImageFormat::kJpeg;
  }
  if (has_signature<8>(file, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'})) {
    return ImageFormat::kPng;
  }
  for (const std::uint8_t kind : {'2', '3', '5', '6'}) {
    if (has_signature<2>(file, {'P', kind})) {
      return ImageFormat::kPnm;
    }
  }
  return std::nullopt;
}

Image decode_image(std::span<const std::byte> file, const DecodeOptions& options) {
  switch (require_format(file)) {
    case ImageFormat::kPng:
      return decode_png(file, options.max_pixels);
    case ImageFormat::kPnm:
      return decode_pnm(file, options.max_pixels);
    case ImageFormat::kJpeg:
      break;
  }
  Image image = decode_jpeg(file, options.max_pixels);
  return options.apply_exif_orientation ? turn(std::move(image), exif_orientation(file))
                                        : std::move(image);
}

std::string decoder_versions() { return jpeg_library() + ", " + png_library(); }

DecodedPart decode_part(std::span<const std::byte> file,
                        const std::function<WantedPart(Size)>& choose,
                        const DecodeOptions& options) {
  const bool is_turned = options.apply_exif_orientation && exif_orientation(file) != 1;
  if (require_format(file) == ImageFormat::kJpeg && !is_turned) {
    return decode_jpeg_part(file, choose, options);
  }
  Image image = decode_image(file, options);
  const Box box = choose({image.height, image.width}).box;
  return {.image = std::move(image), .box = float_box(box)};
}

}  // namespace lockstep::data
