// Pictures from the bytes of a file: JPEG, PNG, PGM and PPM.
//
// The pixels are those of Pillow's Image.open(file).convert("RGB"), byte for byte, which is what
// torchvision's ImageFolder gives: gray becomes three equal bytes, alpha is left out, 16-bit colour
// keeps its upper byte and 16-bit gray is cut at 255. Bytes may be hostile: damage and a cut end
// are errors, and memory is taken only after the size in the header was found acceptable.
//
// A new format is a decoder of its own beside jpeg and png, with a _missing.cpp and
// cmake/Images.cmake if it needs a library; an ImageFormat, its first bytes and its part of
// decoder_versions(), by which caches are told apart, in decode.cpp; its extension in
// ImageFolderOptions and out of the list in readers/folder_listing.cpp; and a fuzz target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "lockstep/data/decode/image.h"

namespace lockstep::data {

enum class ImageFormat { kJpeg, kPng, kPnm };

struct DecodeOptions {
  std::int64_t max_pixels = 178'956'970;  // Where Pillow refuses too.
  // Turns a JPEG as its EXIF data ask, like Pillow's ImageOps.exif_transpose(); ImageFolder does
  // not.
  bool apply_exif_orientation = false;
  // decode_part() may decode a JPEG at half, a quarter or an eighth of its size, where the part
  // becomes much smaller than it is. The pixels differ a little then: 38 dB or more in photographs.
  bool fast = false;
};

// Part of a picture, and the size that it will be resized to.
struct WantedPart {
  Box box;
  Size size;
};

// Where the wanted box lies in the pixels, which may be a little more, or all of the picture.
struct DecodedPart {
  Image image;
  FloatBox box;
};

// By the first bytes, whatever the file is called; nothing if it is none of them.
std::optional<ImageFormat> image_format(std::span<const std::byte> file);

// The libraries that decode, with their versions: another one may give other pixels.
std::string decoder_versions();

// Throws IoError saying what is wrong with the bytes; the caller knows the path.
Image decode_image(std::span<const std::byte> file, const DecodeOptions& options = {});

// Decodes no more of a JPEG than is needed for a part, which is chosen once the size is known and
// must lie inside; other formats are decoded whole. Unless `fast`, the pixels are those of the
// whole picture. Damage below the part is not seen, except that a file without its end is an error.
// Throws IoError, and what `choose` throws.
DecodedPart decode_part(std::span<const std::byte> file,
                        const std::function<WantedPart(Size)>& choose,
                        const DecodeOptions& options = {});

}  // namespace lockstep::data
