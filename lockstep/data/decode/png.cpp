#include "lockstep/data/decode/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <type_traits>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

// libpng reports errors by a callback that must not return: ours jumps. A jump skips destructors,
// so between setjmp() and the jump there are plain data alone, and memory for pixels is taken
// outside of it.
struct Decoder {
  png_structp png;
  png_infop info;
  const std::byte* next;
  std::size_t left;
  std::int64_t row;  // For messages.
  char message[256];
};
static_assert(std::is_trivially_destructible_v<Decoder>);

[[noreturn]] void leave(png_structp png, png_const_charp message) {
  auto& decoder = *static_cast<Decoder*>(::png_get_error_ptr(png));
  std::snprintf(decoder.message, sizeof decoder.message, "%s", message);
  ::png_longjmp(png, 1);
}

void ignore_warning(png_structp /*png*/, png_const_charp /*message*/) {}

void read_bytes(png_structp png, png_bytep out, std::size_t count) {
  auto& decoder = *static_cast<Decoder*>(::png_get_io_ptr(png));
  if (count > decoder.left) {
    char message[64];
    std::snprintf(message, sizeof message, "the data end in row %lld, expected all rows",
                  static_cast<long long>(decoder.row));
    ::png_error(png, message);
  }
  std::memcpy(out, decoder.next, count);
  decoder.next += count;
  decoder.left -= count;
}

// Nothing but size, palette and pixels matters to the result, transparency neither.
void ignore_other_chunks(png_structp png) {
  constexpr png_byte kNames[] =
      "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0"
      "sTER\0tEXt\0tIME\0tRNS\0zTXt";
  ::png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
  ::png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kNames, sizeof kNames / 5);
}

bool is_gray_16(const Decoder& decoder) {
  return ::png_get_color_type(decoder.png, decoder.info) == PNG_COLOR_TYPE_GRAY &&
         ::png_get_bit_depth(decoder.png, decoder.info) == 16;
}

// Everything becomes 8-bit RGB here, but for 16-bit gray, which Pillow treats differently.
void ask_for_rgb(const Decoder& decoder) {
  png_structp png = decoder.png;
  if (is_gray_16(decoder)) {
    return;
  }
  switch (::png_get_color_type(png, decoder.info)) {
    case PNG_COLOR_TYPE_PALETTE:
      ::png_set_palette_to_rgb(png);
      break;
    case PNG_COLOR_TYPE_GRAY:
      ::png_set_expand_gray_1_2_4_to_8(png);
      [[fallthrough]];
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      ::png_set_gray_to_rgb(png);
      break;
    default:
      break;
  }
  ::png_set_strip_16(png);
  ::png_set_strip_alpha(png);
}

// False, with a message, if libpng found a fault.
bool read_header(Decoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) {  // NOLINT(cert-err52-cpp): the way out of libpng.
    return false;
  }
  ::png_set_read_fn(decoder.png, &decoder, read_bytes);
  ::png_set_user_limits(decoder.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // make_image() has ours.
  ::png_set_crc_action(decoder.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  ::png_set_check_for_invalid_index(decoder.png, 0);  // Such a pixel is black, as in Pillow.
  ignore_other_chunks(decoder.png);
  ::png_read_info(decoder.png, decoder.info);
  return true;
}

bool read_pixels(Decoder& decoder, const Image& image) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) {  // NOLINT(cert-err52-cpp): the way out of libpng.
    return false;
  }
  ask_for_rgb(decoder);
  const int passes = ::png_set_interlace_handling(decoder.png);
  ::png_read_update_info(decoder.png, decoder.info);
  const std::size_t pixel_bytes = is_gray_16(decoder) ? 2 : 3;
  if (::png_get_rowbytes(decoder.png, decoder.info) != image.row_bytes() / 3 * pixel_bytes) {
    ::png_error(decoder.png, "libpng and lockstep disagree about the size of a row");
  }
  for (int pass = 0; pass < passes; ++pass) {
    for (decoder.row = 0; decoder.row < image.height; ++decoder.row) {
      ::png_read_row(decoder.png, image.row(decoder.row), nullptr);
    }
  }
  return true;
}

// In place: a row starts as big-endian 16-bit numbers. They are cut, not scaled, as Pillow does.
void gray_16_to_rgb(const Image& image) {
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::uint8_t* row = image.row(y);
    for (std::int64_t x = image.width; x-- > 0;) {
      const std::uint8_t value = row[2 * x] != 0 ? 255 : row[2 * x + 1];
      std::fill_n(row + 3 * x, 3, value);
    }
  }
}

// Owns what libpng holds.
class Cleanup {
 public:
  explicit Cleanup(Decoder& decoder) : decoder_(decoder) {}
  ~Cleanup() { ::png_destroy_read_struct(&decoder_.png, &decoder_.info, nullptr); }
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;

 private:
  Decoder& decoder_;
};

}  // namespace

Image decode_png(std::span<const std::byte> file, std::int64_t max_pixels) {
  Decoder decoder{.next = file.data(), .left = file.size()};
  const Cleanup cleanup(decoder);
  decoder.png = ::png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, leave, ignore_warning);
  decoder.info = decoder.png != nullptr ? ::png_create_info_struct(decoder.png) : nullptr;
  if (decoder.info == nullptr) {
    throw std::bad_alloc();
  }
  const auto require = [&](bool done) {
    if (!done) {
      throw IoError(std::string("PNG: ") + decoder.message);
    }
  };
  require(read_header(decoder));
  Image image = make_image(::png_get_image_width(decoder.png, decoder.info),
                           ::png_get_image_height(decoder.png, decoder.info), max_pixels);
  require(read_pixels(decoder, image));
  if (is_gray_16(decoder)) {
    gray_16_to_rgb(image);
  }
  return image;
}

std::string png_library() { return "libpng " + std::to_string(::png_access_version_number()); }

}  // namespace lockstep::data
