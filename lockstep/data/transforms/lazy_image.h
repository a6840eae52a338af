// A picture to which cropping, resizing and flipping have not been done yet: they are remembered,
// and done in one go when the pixels are needed.
#pragma once

#include <span>

#include "lockstep/data/decode/image.h"
#include "lockstep/data/transforms/normalize.h"
#include "lockstep/data/transforms/resample.h"
#include "lockstep/data/transforms/transforms.h"

namespace lockstep::data {

class LazyImage {
 public:
  // The pixels must stay.
  explicit LazyImage(ImageView pixels);
  // The box of the picture, resized.
  LazyImage(Image pixels, const FloatBox& box, Size size, Interpolation interpolation);

  [[nodiscard]] Size size() const { return {resized_.window.height, resized_.window.width}; }

  void crop(const Box& box, const Color& fill = {0, 0, 0});
  void resize(Size size, Interpolation interpolation);
  void flip_horizontally() { flip_x_ = !flip_x_; }
  void flip_vertically() { flip_y_ = !flip_y_; }

  // Throws IoError if it is resized to more pixels than that may give: see kMostPixels.
  void require_possible() const;

  // The pixels, for those who work on them; give them back with set_pixels(). Throws the same.
  [[nodiscard]] Image take_pixels();
  void set_pixels(Image image);

  // Writes three planes of floats.
  void write(const NormalizeTable& table, std::span<float> planes) const;

 private:
  [[nodiscard]] bool is_resized() const;
  void keep_size();
  [[nodiscard]] Box unflipped(Box box) const;

  Image owned_;  // Where they are not somebody else's.
  ImageView view_;
  FloatBox box_;     // A part of the view.
  Resized resized_;  // What the box becomes, and what is left of that.
  Interpolation interpolation_ = Interpolation::kBilinear;
  bool flip_x_ = false;
  bool flip_y_ = false;
};

}  // namespace lockstep::data
