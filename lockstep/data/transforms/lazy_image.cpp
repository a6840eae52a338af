#include "lockstep/data/transforms/lazy_image.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/data/transforms/geometry.h"
#include "lockstep/data/transforms/resample.h"

namespace lockstep::data {
namespace {

// The pixels that a box touches: a filter must not see those outside of a crop.
Box outer_box(const FloatBox& box, const ImageView& image) {
  const auto left = std::max(static_cast<std::int64_t>(std::floor(box.left)), std::int64_t{0});
  const auto top = std::max(static_cast<std::int64_t>(std::floor(box.top)), std::int64_t{0});
  const auto right = static_cast<std::int64_t>(std::ceil(box.left + box.width));
  const auto bottom = static_cast<std::int64_t>(std::ceil(box.top + box.height));
  return {.left = left,
          .top = top,
          .width = std::min(right, image.width) - left,
          .height = std::min(bottom, image.height) - top};
}

}  // namespace

LazyImage::LazyImage(ImageView pixels) : view_(pixels), box_(whole(pixels)), size_(pixels.size()) {}

LazyImage::LazyImage(Image pixels, const FloatBox& box, Size size, Interpolation interpolation)
    : owned_(std::move(pixels)), size_(size), interpolation_(interpolation) {
  const Box outer = outer_box(box, owned_);
  view_ = ImageView(owned_).part(outer);
  box_ = box;
  box_.left -= static_cast<double>(outer.left);
  box_.top -= static_cast<double>(outer.top);
}

bool LazyImage::is_resized() const {
  return box_.left != 0 || box_.top != 0 || size_ != view_.size() ||
         box_.width != static_cast<double>(view_.width) ||
         box_.height != static_cast<double>(view_.height);
}

void LazyImage::crop(const Box& box, const Color& fill) {
  const bool inside = box.left >= 0 && box.top >= 0 && box.left + box.width <= size_.width &&
                      box.top + box.height <= size_.height;
  if (!inside || is_resized() || flip_x_ || flip_y_) {
    const Image pixels = take_pixels();
    set_pixels(data::crop(pixels, box, fill));
    return;
  }
  view_ = view_.part(box);
  box_ = whole(view_);
  size_ = view_.size();
}

void LazyImage::resize(Size size, Interpolation interpolation) {
  if (is_resized() || interpolation == Interpolation::kNearest) {
    const Image pixels = take_pixels();
    set_pixels(data::resize(pixels, size, interpolation));
    return;
  }
  size_ = size;
  interpolation_ = interpolation;
}

Image LazyImage::take_pixels() {
  Image image = is_resized() ? data::resize(view_, box_, size_, interpolation_)
                             : data::crop(view_, {.width = view_.width, .height = view_.height});
  if (std::exchange(flip_x_, false)) {
    image = horizontal_flip(image);
  }
  if (std::exchange(flip_y_, false)) {
    image = vertical_flip(image);
  }
  return image;
}

void LazyImage::set_pixels(Image image) {
  owned_ = std::move(image);
  view_ = owned_;
  box_ = whole(view_);
  size_ = view_.size();
}

void LazyImage::write(const NormalizeTable& table, std::span<float> planes) const {
  const auto place = [&](std::int64_t y) {
    return PlaneRow{.size = size_, .y = flip_y_ ? size_.height - 1 - y : y, .flip = flip_x_};
  };
  if (!is_resized()) {
    for (std::int64_t y = 0; y < size_.height; ++y) {
      write_row(view_.row(y), table, place(y), planes);
    }
    return;
  }
  RowResizer rows(view_, box_, size_, interpolation_);
  for (std::int64_t y = 0; y < size_.height; ++y) {
    write_row(rows.next(), table, place(y), planes);
  }
}

}  // namespace lockstep::data
