#include "lockstep/data/transforms/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/data/transforms/resample_loops.h"
#include "lockstep/data/transforms/resample_wide.h"

namespace lockstep::data {
namespace {

const ResampleLoops& resample_loops() {
  static constexpr ResampleLoops kLoops{.resample_rows = resample_rows, .blend_rows = blend_rows};
  static const ResampleLoops* const wide = wide_resample_loops();
  return wide != nullptr ? *wide : kLoops;
}

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

// Keys' cubic convolution with a = -0.5.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) {
    return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  }
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

struct Filter {
  double (*weight)(double);
  double reach;
};

Filter filter_of(Interpolation interpolation) {
  return interpolation == Interpolation::kBicubic ? Filter{cubic, 2} : Filter{triangle, 1};
}

std::int32_t rounded(double weight) {
  const double scaled = weight * (1 << kWeightBits);
  return static_cast<std::int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

// `length` pixels from `start` become `results` of them; the side has `pixels` in all. Only
// `wanted` results are computed, from result `first` on.
struct Side {
  std::int64_t pixels;
  std::int64_t results;
  double start;
  double length;
  std::int64_t first;
  std::int64_t wanted;
};

Weights weights_of(const Filter& filter, const Side& side) {
  const double scale = side.length / static_cast<double>(side.results);
  const double stretch = std::max(scale, 1.0);
  const double reach = filter.reach * stretch;
  const auto pixels = static_cast<std::int32_t>(side.pixels);
  const auto center_of = [&](std::int64_t i) {
    return side.start + (static_cast<double>(side.first + i) + 0.5) * scale;
  };
  const auto begin_of = [&](double center) {
    return std::max(static_cast<std::int32_t>(center - reach + 0.5), std::int32_t{0});
  };
  const auto end_of = [&](double center) {
    return std::min(static_cast<std::int32_t>(center + reach + 0.5), pixels);
  };
  Weights all;
  for (std::int64_t i = 0; i < side.wanted; ++i) {
    all.count = std::max(all.count, end_of(center_of(i)) - begin_of(center_of(i)));
  }
  std::vector<double> weights(static_cast<std::size_t>(all.count));
  all.first.reserve(static_cast<std::size_t>(side.wanted));
  all.weights.resize(static_cast<std::size_t>(side.wanted) * weights.size());
  for (std::int64_t i = 0; i < side.wanted; ++i) {
    const double center = center_of(i);
    const std::int32_t first = std::min(begin_of(center), pixels - all.count);
    std::ranges::fill(weights, 0.0);
    double sum = 0;
    for (std::int32_t k = begin_of(center); k < end_of(center); ++k) {
      const double weight = filter.weight((k - center + 0.5) / stretch);
      weights[static_cast<std::size_t>(k - first)] = weight;
      sum += weight;
    }
    std::ranges::transform(weights, all.weights.begin() + i * all.count,
                           [sum](double weight) { return rounded(sum != 0 ? weight / sum : 0); });
    all.first.push_back(first);
  }
  return all;
}

// Pixels of a side, those from `end` on left out.
struct Pixels {
  std::int64_t first;
  std::int64_t end;
};

// The pixels that count; from now on the weights are of these alone.
Pixels cut_to_what_counts(Weights& all) {
  const auto [low, high] = std::ranges::minmax(all.first);
  for (std::int32_t& first : all.first) {
    first -= low;
  }
  return {low, high + all.count};
}

// What Pillow 13 does: rows come first where they become fewer by more than twice what columns do.
bool takes_rows_first(ImageView image, Size size) {
  return size.height < image.height && image.height - size.height > 2 * (image.width - size.width);
}

Image make_result(Size size) {
  require_possible(size);
  return make_image(size.width, size.height, kMostPixels);
}

// As Pillow steps through a side, adding up.
std::vector<std::int64_t> nearest_pixels(std::int64_t pixels, std::int64_t results) {
  const double scale = static_cast<double>(pixels) / static_cast<double>(results);
  double place = scale * 0.5;
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(results));
  for (std::int64_t& pixel : chosen) {
    pixel = std::clamp(static_cast<std::int64_t>(place), std::int64_t{0}, pixels - 1);
    place += scale;
  }
  return chosen;
}

Image resize_nearest(ImageView image, Size size) {
  Image out = make_result(size);
  const auto columns = nearest_pixels(image.width, size.width);
  const auto rows = nearest_pixels(image.height, size.height);
  for (std::int64_t y = 0; y < size.height; ++y) {
    const std::uint8_t* from = image.row(rows[static_cast<std::size_t>(y)]);
    std::uint8_t* to = out.row(y);
    for (const std::int64_t x : columns) {
      std::memcpy(to, from + x * 3, 3);
      to += 3;
    }
  }
  return out;
}

}  // namespace

FloatBox whole(const ImageView& image) {
  return {.left = 0,
          .top = 0,
          .width = static_cast<double>(image.width),
          .height = static_cast<double>(image.height)};
}

void require_possible(Size result) {
  if (result.height > kMostPixels / result.width) {
    throw IoError("resizing it gives " + std::to_string(result.width) + "x" +
                  std::to_string(result.height) + " pixels, expected at most " +
                  std::to_string(kMostPixels) + " in all");
  }
}

RowResizer::RowResizer(ImageView image, const FloatBox& box, const Resized& resized,
                       Interpolation interpolation)
    : window_(resized.window),
      same_width_(box.left == 0 && box.width == static_cast<double>(resized.size.width) &&
                  image.width == resized.size.width),
      same_height_(box.top == 0 && box.height == static_cast<double>(resized.size.height) &&
                   image.height == resized.size.height),
      rows_first_(same_height_ || takes_rows_first(image, resized.size)),
      columns_(weights_of(filter_of(interpolation), {image.width, resized.size.width, box.left,
                                                     box.width, window_.left, window_.width})),
      rows_(weights_of(filter_of(interpolation), {image.height, resized.size.height, box.top,
                                                  box.height, window_.top, window_.height})),
      stride_(static_cast<std::size_t>(window_.width) * 3 + 1),
      ring_(rows_.count + 1),
      out_(std::make_unique_for_overwrite<std::uint8_t[]>(2 * stride_)),
      inputs_(static_cast<std::size_t>(rows_.count)) {
  const Pixels counting = same_width_ ? Pixels{window_.left, window_.left + window_.width}
                                      : cut_to_what_counts(columns_);
  image_ = image.part(
      {.left = counting.first, .width = counting.end - counting.first, .height = image.height});
  pixels_ = std::make_unique_for_overwrite<PixelPair[]>(static_cast<std::size_t>(image_.width));
  if (rows_first_) {
    blended_ = std::make_unique_for_overwrite<std::uint8_t[]>(2 * row_bytes());
  } else {
    narrow_ =
        std::make_unique_for_overwrite<std::uint8_t[]>(stride_ * static_cast<std::size_t>(ring_));
  }
}

// The first pass, or the second where rows came first.
void RowResizer::narrow(const RowPair& rows, const RowPairOut& out) {
  if (same_width_) {
    std::memcpy(out.upper, rows.upper.data(), rows.upper.size());
    std::memcpy(out.lower, rows.lower.data(), rows.lower.size());
  } else {
    resample_loops().resample_rows(rows, columns_, pixels_.get(), out);
  }
}

std::span<const std::uint8_t> RowResizer::blend(std::int64_t y, std::uint8_t* out) {
  if (same_height_) {
    return image_row(window_.top + y);
  }
  const std::int64_t first = rows_.first[static_cast<std::size_t>(y)];
  for (std::int64_t k = 0; k < rows_.count; ++k) {
    inputs_[static_cast<std::size_t>(k)] = image_.row(first + k);
  }
  const std::span row(out, row_bytes());
  resample_loops().blend_rows(inputs_, rows_.of(static_cast<std::size_t>(y)), row);
  return row;
}

// Two rows at a time: the second is kept for the next call.
const std::uint8_t* RowResizer::next_rows_first(std::int64_t y) {
  if (y % 2 == 1) {
    return out_.get() + stride_;
  }
  const auto upper = blend(y, blended_.get());
  const auto lower = y + 1 < window_.height ? blend(y + 1, blended_.get() + row_bytes()) : upper;
  narrow({upper, lower}, {out_.get(), out_.get() + stride_});
  return out_.get();
}

const std::uint8_t* RowResizer::next_columns_first(std::int64_t y) {
  const std::int64_t first = rows_.first[static_cast<std::size_t>(y)];
  for (narrowed_ = std::max(narrowed_, first); narrowed_ < first + rows_.count; narrowed_ += 2) {
    const std::int64_t lower = std::min(narrowed_ + 1, image_.height - 1);
    narrow({image_row(narrowed_), image_row(lower)}, {ring_row(narrowed_), ring_row(lower)});
  }
  for (std::int64_t k = 0; k < rows_.count; ++k) {
    inputs_[static_cast<std::size_t>(k)] = ring_row(first + k);
  }
  resample_loops().blend_rows(inputs_, rows_.of(static_cast<std::size_t>(y)),
                              {out_.get(), stride_ - 1});
  return out_.get();
}

const std::uint8_t* RowResizer::next() {
  const std::int64_t y = next_++;
  return rows_first_ ? next_rows_first(y) : next_columns_first(y);
}

Image resize(ImageView image, Size size, Interpolation interpolation) {
  if (size.height < 1 || size.width < 1 || image.height < 1 || image.width < 1) {
    throw UsageError("resize from " + std::to_string(image.height) + "x" +
                     std::to_string(image.width) + " to " + std::to_string(size.height) + "x" +
                     std::to_string(size.width) + " pixels: expected at least 1x1");
  }
  if (interpolation == Interpolation::kNearest) {
    return resize_nearest(image, size);
  }
  const Box all{.width = size.width, .height = size.height};
  return resize(image, whole(image), {.size = size, .window = all}, interpolation);
}

Image resize(ImageView image, const FloatBox& box, const Resized& resized,
             Interpolation interpolation) {
  Image out = make_result({resized.window.height, resized.window.width});
  RowResizer rows(image, box, resized, interpolation);
  for (std::int64_t y = 0; y < out.height; ++y) {
    std::memcpy(out.row(y), rows.next(), out.row_bytes());
  }
  return out;
}

}  // namespace lockstep::data
