#include "lockstep/data/decode/jpeg.h"

// jpeglib.h uses FILE and size_t without including them.
#include <cstdio>

#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <string>
#include <type_traits>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

// libjpeg reports errors by a callback that must not return: ours jumps. A jump skips destructors,
// so between setjmp() and the jump there are plain data alone, and memory for pixels is taken
// outside of it.
struct Decoder {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_source_mgr source;
  jpeg_progress_mgr progress;
  std::jmp_buf on_error;
  char message[JMSG_LENGTH_MAX];
};
static_assert(std::is_trivially_destructible_v<Decoder>);

enum class Outcome { kDone, kCutOff, kError };

// More scans than any encoder writes. A small file of empty scans would take hours.
constexpr int kMostScans = 500;

Decoder& decoder_of(j_common_ptr info) { return *static_cast<Decoder*>(info->client_data); }

[[noreturn]] void leave(j_common_ptr info) {
  Decoder& decoder = decoder_of(info);
  info->err->format_message(info, decoder.message);
  std::longjmp(decoder.on_error, 1);
}

void ignore_message(j_common_ptr /*info*/) {}
void do_nothing(j_decompress_ptr /*info*/) {}

// All bytes are there from the start: who asks for more has a file that is cut off. libjpeg then
// returns, as it does for Pillow, instead of making up the rest of the picture.
boolean no_more_bytes(j_decompress_ptr /*info*/) { return FALSE; }

void skip_bytes(j_decompress_ptr info, long count) {
  jpeg_source_mgr& source = *info->src;
  if (count <= 0) {
    return;
  }
  const std::size_t step = std::min(static_cast<std::size_t>(count), source.bytes_in_buffer);
  source.next_input_byte += step;
  source.bytes_in_buffer -= step;
}

void limit_scans(j_common_ptr info) {
  if (info->is_decompressor &&
      reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans) {
    Decoder& decoder = decoder_of(info);
    std::snprintf(decoder.message, sizeof decoder.message, "more than %d scans", kMostScans);
    std::longjmp(decoder.on_error, 1);
  }
}

Outcome read_header(Decoder& decoder, std::span<const std::byte> file) {
  jpeg_decompress_struct& info = decoder.info;
  info.err = ::jpeg_std_error(&decoder.errors);
  info.client_data = &decoder;
  decoder.errors.error_exit = leave;
  decoder.errors.output_message = ignore_message;
  if (setjmp(decoder.on_error) != 0) {  // NOLINT(cert-err52-cpp): the way out of libjpeg.
    return Outcome::kError;
  }
  jpeg_create_decompress(&info);
  decoder.source.init_source = do_nothing;
  decoder.source.fill_input_buffer = no_more_bytes;
  decoder.source.skip_input_data = skip_bytes;
  decoder.source.resync_to_restart = ::jpeg_resync_to_restart;
  decoder.source.term_source = do_nothing;
  decoder.source.next_input_byte = reinterpret_cast<const JOCTET*>(file.data());
  decoder.source.bytes_in_buffer = file.size();
  info.src = &decoder.source;
  decoder.progress.progress_monitor = limit_scans;
  info.progress = &decoder.progress;
  int result = JPEG_HEADER_TABLES_ONLY;
  while (result == JPEG_HEADER_TABLES_ONLY) {
    result = ::jpeg_read_header(&info, FALSE);
  }
  return result == JPEG_SUSPENDED ? Outcome::kCutOff : Outcome::kDone;
}

// Pillow's: libjpeg gives inverted CMYK, whether or not Adobe wrote the file.
void inverted_cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, std::int64_t pixels) {
  for (std::int64_t i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    const int light = cmyk[3];
    for (int channel = 0; channel < 3; ++channel) {
      const int product = (255 - cmyk[channel]) * light + 128;
      rgb[channel] = static_cast<std::uint8_t>(light - (((product >> 8) + product) >> 8));
    }
  }
}

// `cmyk_row` has room for a row of four bytes a pixel, if the picture has four channels.
Outcome read_pixels(Decoder& decoder, const Image& image, std::uint8_t* cmyk_row) {
  jpeg_decompress_struct& info = decoder.info;
  if (setjmp(decoder.on_error) != 0) {  // NOLINT(cert-err52-cpp): the way out of libjpeg.
    return Outcome::kError;
  }
  info.out_color_space = cmyk_row != nullptr ? JCS_CMYK : JCS_RGB;
  if (!::jpeg_start_decompress(&info)) {
    return Outcome::kCutOff;
  }
  while (info.output_scanline < info.output_height) {
    std::uint8_t* const pixels = image.row(info.output_scanline);
    JSAMPROW row = cmyk_row != nullptr ? cmyk_row : pixels;
    if (::jpeg_read_scanlines(&info, &row, 1) != 1) {
      return Outcome::kCutOff;
    }
    if (cmyk_row != nullptr) {
      inverted_cmyk_to_rgb(cmyk_row, pixels, image.width);
    }
  }
  // A missing end behind the last row is no fault; damage there is one, to Pillow too.
  (void)::jpeg_finish_decompress(&info);
  return Outcome::kDone;
}

void require(const Decoder& decoder, Outcome outcome) {
  if (outcome == Outcome::kError) {
    throw IoError(std::string("JPEG: ") + decoder.message);
  }
  if (outcome == Outcome::kCutOff) {
    throw IoError("JPEG: the data end in row " + std::to_string(decoder.info.output_scanline) +
                  " of " + std::to_string(decoder.info.image_height) + ", expected all rows");
  }
}

void require_channels(const jpeg_decompress_struct& info) {
  if (info.data_precision != 8) {
    throw IoError("JPEG: a channel has " + std::to_string(info.data_precision) +
                  " bits, expected 8");
  }
  if (info.num_components != 1 && info.num_components != 3 && info.num_components != 4) {
    throw IoError("JPEG: there are " + std::to_string(info.num_components) +
                  " channels, expected 1, 3 or 4");
  }
}

// Frees what libjpeg holds; fine if it holds nothing.
class Cleanup {
 public:
  explicit Cleanup(Decoder& decoder) : decoder_(decoder) {}
  ~Cleanup() { ::jpeg_destroy_decompress(&decoder_.info); }
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;

 private:
  Decoder& decoder_;
};

}  // namespace

Image decode_jpeg(std::span<const std::byte> file, std::int64_t max_pixels) {
  Decoder decoder{};
  const Cleanup cleanup(decoder);
  require(decoder, read_header(decoder, file));
  require_channels(decoder.info);
  Image image = make_image(decoder.info.image_width, decoder.info.image_height, max_pixels);
  std::unique_ptr<std::uint8_t[]> cmyk_row;
  if (decoder.info.num_components == 4) {
    cmyk_row = std::make_unique<std::uint8_t[]>(static_cast<std::size_t>(image.width) * 4);
  }
  require(decoder, read_pixels(decoder, image, cmyk_row.get()));
  return image;
}

}  // namespace lockstep::data
