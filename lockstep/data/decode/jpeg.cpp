#include "lockstep/data/decode/jpeg.h"

// jpeglib.h uses FILE and size_t without including them.
#include <cstdio>

#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

enum class Outcome { kDone, kCutOff, kError };

// libjpeg reports errors by a callback that must not return: ours jumps. A jump skips destructors,
// so between setjmp() and the jump there are plain data alone, and memory for pixels is taken
// outside of it.
struct Decoder {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_source_mgr source;
  jpeg_progress_mgr progress;
  std::jmp_buf on_leave;
  Outcome outcome;    // Why it was left.
  bool has_all_rows;  // A missing end behind them is no fault.
  char message[JMSG_LENGTH_MAX];
};
static_assert(std::is_trivially_destructible_v<Decoder>);

constexpr unsigned kFullScale = 8;  // Libjpeg's scales are eighths.
// What decoding at a smaller scale leaves of a part's width and height: so many times the pixels
// that are wanted, and no fewer than these, because the edges of the part, which fall between two
// pixels of the smaller picture, count for more in a small one.
constexpr std::int64_t kReserve = 2;
constexpr std::int64_t kFewestPixels = 96;

// More scans than any encoder writes. A small file of empty scans would take hours.
constexpr int kMostScans = 500;

Decoder& decoder_of(j_common_ptr info) { return *static_cast<Decoder*>(info->client_data); }

[[noreturn]] void leave(Decoder& decoder, Outcome outcome) {
  decoder.outcome = outcome;
  std::longjmp(decoder.on_leave, 1);
}

[[noreturn]] void leave_with_error(j_common_ptr info) {
  Decoder& decoder = decoder_of(info);
  info->err->format_message(info, decoder.message);
  leave(decoder, Outcome::kError);
}

void ignore_message(j_common_ptr /*info*/) {}
void do_nothing(j_decompress_ptr /*info*/) {}

// All bytes are there from the start: if libjpeg asks for more, the file is cut off, and nothing is
// made up for the rest, as in Pillow. If this returned FALSE, skipping rows would be undefined.
boolean no_more_bytes(j_decompress_ptr info) {
  Decoder& decoder = decoder_of(reinterpret_cast<j_common_ptr>(info));
  leave(decoder, decoder.has_all_rows ? Outcome::kDone : Outcome::kCutOff);
}

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
    leave(decoder, Outcome::kError);
  }
}

Outcome read_header(Decoder& decoder, std::span<const std::byte> file) {
  jpeg_decompress_struct& info = decoder.info;
  info.err = ::jpeg_std_error(&decoder.errors);
  info.client_data = &decoder;
  decoder.errors.error_exit = leave_with_error;
  decoder.errors.output_message = ignore_message;
  if (setjmp(decoder.on_leave) != 0) {  // NOLINT(cert-err52-cpp): the way out of libjpeg.
    return decoder.outcome;
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
  while (::jpeg_read_header(&info, FALSE) == JPEG_HEADER_TABLES_ONLY) {
  }
  return Outcome::kDone;
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

// What is decoded, in pixels of the scaled picture: columns from `left`, which libjpeg moves to the
// border of a block, and rows from `top`.
struct Plan {
  unsigned scale = 8;  // In eighths.
  JDIMENSION left = 0;
  JDIMENSION width = 0;
  JDIMENSION top = 0;
  JDIMENSION bottom = 0;
  bool to_the_end = true;  // Whether rows below and the end of the file are looked at too.
};

Outcome start(Decoder& decoder, Plan& plan) {
  jpeg_decompress_struct& info = decoder.info;
  if (setjmp(decoder.on_leave) != 0) {  // NOLINT(cert-err52-cpp): the way out of libjpeg.
    return decoder.outcome;
  }
  info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_RGB;
  info.scale_num = plan.scale;
  info.scale_denom = kFullScale;
  (void)::jpeg_start_decompress(&info);
  if (plan.width < info.output_width) {
    ::jpeg_crop_scanline(&info, &plan.left, &plan.width);
  }
  return Outcome::kDone;
}

// `cmyk_row` has room for a row of four bytes a pixel, if the picture has four channels; `rest` for
// one that is not kept.
Outcome read_pixels(Decoder& decoder, const Plan& plan, const Image& image, std::uint8_t* cmyk_row,
                    std::uint8_t* rest) {
  jpeg_decompress_struct& info = decoder.info;
  if (setjmp(decoder.on_leave) != 0) {  // NOLINT(cert-err52-cpp): the way out of libjpeg.
    return decoder.outcome;
  }
  if (plan.top > 0) {
    ::jpeg_skip_scanlines(&info, plan.top);
  }
  const JDIMENSION end = plan.to_the_end ? info.output_height : plan.bottom;
  while (info.output_scanline < end) {
    const bool keep = info.output_scanline < plan.bottom;
    std::uint8_t* const pixels = keep ? image.row(info.output_scanline - plan.top) : rest;
    JSAMPROW row = cmyk_row != nullptr ? cmyk_row : pixels;
    if (::jpeg_read_scanlines(&info, &row, 1) != 1) {
      return Outcome::kCutOff;  // Else this would never end.
    }
    if (cmyk_row != nullptr && keep) {
      inverted_cmyk_to_rgb(cmyk_row, pixels, image.width);
    }
  }
  if (plan.to_the_end) {
    decoder.has_all_rows = true;
    (void)::jpeg_finish_decompress(&info);  // Damage behind the last row is a fault to Pillow too.
  }
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

JDIMENSION scaled(JDIMENSION pixels, unsigned scale) {
  return (pixels * scale + kFullScale - 1) / kFullScale;
}

// How far pixels can be reduced while decoding so that resizing still has enough of them.
unsigned scale_for(const WantedPart& wanted) {
  const auto enough = [](std::int64_t have, std::int64_t want, unsigned scale) {
    return have * scale >= std::max(kReserve * want, kFewestPixels) * kFullScale;
  };
  for (const unsigned scale : {1U, 2U, 4U}) {
    if (enough(wanted.box.width, wanted.size.width, scale) &&
        enough(wanted.box.height, wanted.size.height, scale)) {
      return scale;
    }
  }
  return kFullScale;
}

// The blocks that a part touches, and one more on each side where colours have fewer pixels than
// brightness has: libjpeg takes neighbours into account when it fills them in.
Plan plan_for(const WantedPart& wanted, const jpeg_decompress_struct& info, bool fast) {
  const unsigned scale = fast ? scale_for(wanted) : kFullScale;
  const auto range = [scale](std::int64_t start, std::int64_t length, int factor,
                             JDIMENSION limit) {
    const std::int64_t block = factor * std::int64_t{kFullScale};
    const std::int64_t margin = factor > 1 ? 1 : 0;
    const std::int64_t first = std::max(start / block - margin, std::int64_t{0});
    const std::int64_t last = (start + length + block - 1) / block + margin;
    const JDIMENSION end = scaled(limit, scale);
    return std::pair{static_cast<JDIMENSION>(first * factor * scale),
                     static_cast<JDIMENSION>(std::min(last * factor * scale, std::int64_t{end}))};
  };
  const Box& box = wanted.box;
  const auto [left, right] = range(box.left, box.width, info.max_h_samp_factor, info.image_width);
  const auto [top, bottom] = range(box.top, box.height, info.max_v_samp_factor, info.image_height);
  return {.scale = scale, .left = left, .width = right - left, .top = top, .bottom = bottom};
}

// Whether the last bytes say so. If not, the file may be cut off, and all of it is decoded.
bool has_its_end(std::span<const std::byte> file) {
  return file.size() >= 2 && file[file.size() - 2] == std::byte{0xff} &&
         file[file.size() - 1] == std::byte{0xd9};
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
  const auto all = [](Size size) {
    return WantedPart{.box = {.width = size.width, .height = size.height}, .size = size};
  };
  return decode_jpeg_part(file, all, {.max_pixels = max_pixels}).image;
}

std::string jpeg_library() {
  return "libjpeg-turbo " + std::to_string(LIBJPEG_TURBO_VERSION_NUMBER);
}

DecodedPart decode_jpeg_part(std::span<const std::byte> file,
                             const std::function<WantedPart(Size)>& choose,
                             const DecodeOptions& options) {
  Decoder decoder{};
  const Cleanup cleanup(decoder);
  jpeg_decompress_struct& info = decoder.info;
  require(decoder, read_header(decoder, file));
  require_channels(info);
  require_image_size(info.image_width, info.image_height, options.max_pixels);
  const WantedPart wanted = choose({info.image_height, info.image_width});
  Plan plan = plan_for(wanted, info, options.fast);
  plan.to_the_end = plan.bottom == scaled(info.image_height, plan.scale) || !has_its_end(file);
  require(decoder, start(decoder, plan));
  Image image = make_image(plan.width, plan.bottom - plan.top, options.max_pixels);
  std::unique_ptr<std::uint8_t[]> cmyk_row;
  std::unique_ptr<std::uint8_t[]> rest;
  if (info.num_components == 4) {
    cmyk_row = std::make_unique<std::uint8_t[]>(static_cast<std::size_t>(image.width) * 4);
  }
  if (plan.to_the_end && plan.bottom < info.output_height) {
    rest = std::make_unique<std::uint8_t[]>(image.row_bytes());
  }
  require(decoder, read_pixels(decoder, plan, image, cmyk_row.get(), rest.get()));
  FloatBox box = float_box(wanted.box);
  const double scale = plan.scale / double{kFullScale};
  box.left = box.left * scale - plan.left;
  box.top = box.top * scale - plan.top;
  box.width *= scale;
  box.height *= scale;
  return {.image = std::move(image), .box = box};
}

}  // namespace lockstep::data
