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

Resized all_of(Size size) {
  return {.size = size, .window = {.width = size.width, .height = size.height}};
}

// Empty if the box lies outside.
Box inner_part(const Box& box, Size size) {
  const auto left = std::max(box.left, std::int64_t{0});
  const auto top = std::max(box.top, std::int64_t{0});
  return {.left = left,
          .top = top,
          .width = std::max(std::min(box.left + box.width, size.width) - left, std::int64_t{0}),
          .height = std::max(std::min(box.top + box.height, size.height) - top, std::int64_t{0})};
}

}  // namespace

LazyImage::LazyImage(ImageView pixels) : view_(pixels) { keep_size(); }

LazyImage::LazyImage(Image pixels, const FloatBox& box, Size size, Interpolation interpolation)
    : owned_(std::move(pixels)), resized_(all_of(size)), interpolation_(interpolation) {
  const Box outer = outer_box(box, owned_);
  view_ = ImageView(owned_).part(outer);
  box_ = box;
  box_.left -= static_cast<double>(outer.left);
  box_.top -= static_cast<double>(outer.top);
}

bool LazyImage::is_resized() const {
  return box_.left != 0 || box_.top != 0 || resized_.size != view_.size() ||
         box_.width != static_cast<double>(view_.width) ||
         box_.height != static_cast<double>(view_.height);
}

void LazyImage::keep_size() {
  box_ = whole(view_);
  resized_ = all_of(view_.size());
}

Box LazyImage::unflipped(Box box) const {
  if (flip_x_) {
    box.left = size().width - box.left - box.width;
  }
  if (flip_y_) {
    box.top = size().height - box.top - box.height;
  }
  return box;
}

void LazyImage::crop(const Box& box, const Color& fill) {
  const Box inner = inner_part(box, size());
  if (inner.width == 0 || inner.height == 0) {
    const Image pixels = take_pixels();
    set_pixels(data::crop(pixels, box, fill));
    return;
  }
  const Box part = unflipped(inner);
  if (is_resized()) {
    resized_.window = {.left = resized_.window.left + part.left,
                       .top = resized_.window.top + part.top,
                       .width = part.width,
                       .height = part.height};
  } else {
    view_ = view_.part(part);
    keep_size();
  }
  if (inner != box) {
    const Image pixels = take_pixels();
    const Box padded{.left = box.left - inner.left,
                     .top = box.top - inner.top,
                     .width = box.width,
                     .height = box.height};
    set_pixels(data::crop(pixels, padded, fill));
  }
}

void LazyImage::resize(Size size, Interpolation interpolation) {
  if (is_resized() || interpolation == Interpolation::kNearest) {
    const Image pixels = take_pixels();
    set_pixels(data::resize(pixels, size, interpolation));
    return;
  }
  resized_ = all_of(size);
  interpolation_ = interpolation;
}

void LazyImage::require_possible() const {
  if (is_resized()) {
    data::require_possible(size());
  }
}

Image LazyImage::take_pixels() {
  Image image = is_resized() ? data::resize(view_, box_, resized_, interpolation_)
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
  keep_size();
}

void LazyImage::write(const NormalizeTable& table, std::span<float> planes) const {
  const Size size = this->size();
  const auto place = [&](std::int64_t y) {
    return PlaneRow{.size = size, .y = flip_y_ ? size.height - 1 - y : y, .flip = flip_x_};
  };
  if (!is_resized()) {
    for (std::int64_t y = 0; y < size.height; ++y) {
      write_row(view_.row(y), table, place(y), planes);
    }
    return;
  }
  RowResizer rows(view_, box_, resized_, interpolation_);
  for (std::int64_t y = 0; y < size.height; ++y) {
    write_row(rows.next(), table, place(y), planes);
  }
}

}  // namespace lockstep::data
