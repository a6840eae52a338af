#include "lockstep/data/transforms/compose.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/readers/bad_files.h"
#include "lockstep/data/transforms/check.h"
#include "lockstep/data/transforms/color.h"
#include "lockstep/data/transforms/geometry.h"
#include "lockstep/data/transforms/get_params.h"
#include "lockstep/data/transforms/lazy_image.h"
#include "lockstep/data/transforms/rand_augment.h"

namespace lockstep::data {
namespace {

// Does each transform to a picture, in order.
class OnBytes {
 public:
  OnBytes(LazyImage& image, SampleRandom& random) : image_(image), random_(random) {}

  void operator()(const Resize& resize) {
    image_.resize(get_params(resize, image_.size()), resize.interpolation);
  }
  void operator()(const CenterCrop& crop) { image_.crop(get_params(crop, image_.size())); }
  void operator()(const RandomCrop& crop) {
    if (crop.padding_mode == PaddingMode::kConstant) {
      image_.crop(get_params(crop, image_.size(), random_), crop.fill);
      return;
    }
    // One after another: what is mirrored second has been padded before.
    pad(crop.padding, crop.padding_mode);
    if (crop.pad_if_needed) {
      const std::int64_t columns = crop.size.width - image_.size().width;
      pad({std::max(columns, std::int64_t{0}), 0}, crop.padding_mode);
      const std::int64_t rows = crop.size.height - image_.size().height;
      pad({0, std::max(rows, std::int64_t{0})}, crop.padding_mode);
    }
    image_.crop(get_params(RandomCrop{.size = crop.size}, image_.size(), random_));
  }
  void operator()(const RandomResizedCrop& crop) {
    image_.crop(get_params(crop, image_.size(), random_));
    image_.resize(crop.size, crop.interpolation);
  }
  void operator()(const RandomHorizontalFlip& flip) {
    if (random_.uniform() < flip.p) {
      image_.flip_horizontally();
    }
  }
  void operator()(const RandomVerticalFlip& flip) {
    if (random_.uniform() < flip.p) {
      image_.flip_vertically();
    }
  }
  void operator()(const ColorJitter& jitter) {
    Image pixels = image_.take_pixels();
    for (const JitterStep& step : get_params(jitter, random_)) {
      adjust(pixels, step);
    }
    image_.set_pixels(std::move(pixels));
  }
  void operator()(const RandAugment& augment) {
    Image pixels = image_.take_pixels();
    for (const AugmentStep& step : get_params(augment, image_.size(), random_)) {
      pixels = apply(step, augment, std::move(pixels));
    }
    image_.set_pixels(std::move(pixels));
  }
  void operator()(const Lambda& lambda) {
    Image pixels = image_.take_pixels();
    try {
      image_.set_pixels(lambda.function(std::move(pixels), random_));
    } catch (const IoError& error) {
      throw NotTheFile("Lambda: " + std::string(error.what()));
    }
  }
  template <class OnFloats>
  void operator()(const OnFloats&) {}

 private:
  void pad(const Padding& padding, PaddingMode mode) {
    if (padding.left + padding.top + padding.right + padding.bottom > 0) {
      const Image pixels = image_.take_pixels();
      image_.set_pixels(data::pad(pixels, padding, mode));
    }
  }

  static void adjust(Image& pixels, const JitterStep& step) {
    switch (step.adjustment) {
      case Adjustment::kBrightness:
        return adjust_brightness(pixels, step.factor);
      case Adjustment::kContrast:
        return adjust_contrast(pixels, step.factor);
      case Adjustment::kSaturation:
        return adjust_saturation(pixels, step.factor);
      case Adjustment::kHue:
        return adjust_hue(pixels, step.factor);
    }
  }

  LazyImage& image_;
  SampleRandom& random_;
};

// What to decode for the first transform, and whether that does it.
struct FirstStep {
  WantedPart wanted;
  Interpolation interpolation = Interpolation::kBilinear;
  bool is_done = false;
};

FirstStep whole_picture(Size size) {
  return {.wanted = {.box = {.width = size.width, .height = size.height}, .size = size}};
}

class ChooseFirst {
 public:
  ChooseFirst(Size size, SampleRandom& random) : size_(size), random_(random) {}

  FirstStep operator()(const RandomResizedCrop& crop) const {
    if (crop.interpolation == Interpolation::kNearest) {
      return whole_picture(size_);
    }
    return {.wanted = {.box = get_params(crop, size_, random_), .size = crop.size},
            .interpolation = crop.interpolation,
            .is_done = true};
  }
  FirstStep operator()(const Resize& resize) const {
    if (resize.interpolation == Interpolation::kNearest) {
      return whole_picture(size_);
    }
    FirstStep step = whole_picture(size_);
    step.wanted.size = get_params(resize, size_);
    step.interpolation = resize.interpolation;
    step.is_done = true;
    return step;
  }
  FirstStep operator()(const CenterCrop& crop) const {
    const Box box = get_params(crop, size_);
    if (box.left < 0 || box.top < 0) {
      return whole_picture(size_);
    }
    return {.wanted = {.box = box, .size = crop.size}, .is_done = true};
  }
  template <class Other>
  FirstStep operator()(const Other&) const {
    return whole_picture(size_);
  }

 private:
  Size size_;
  SampleRandom& random_;
};

void erase(const RandomErasing& erasing, Size size, std::span<float> planes, SampleRandom& random) {
  const auto box = get_params(erasing, size, random);
  if (!box) {
    return;
  }
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    for (std::int64_t y = box->top; y < box->top + box->height; ++y) {
      float* row = planes.data() + (channel * size.height + y) * size.width + box->left;
      if (erasing.value) {
        std::fill_n(row, box->width, (*erasing.value)[static_cast<std::size_t>(channel)]);
      } else {
        std::generate_n(row, box->width, [&] { return static_cast<float>(random.normal()); });
      }
    }
  }
}

void apply_to_floats(const std::vector<Transform>& transforms, Size size, std::span<float> planes,
                     SampleRandom& random) {
  for (const Transform& transform : transforms) {
    if (const auto* by = std::get_if<Normalize>(&transform)) {
      normalize(size, planes, *by);
    } else if (const auto* erasing = std::get_if<RandomErasing>(&transform)) {
      erase(*erasing, size, planes, random);
    }
  }
}

// The size that a picture has behind a transform, if it is always the same.
std::optional<Size> size_behind(const Transform& transform, std::optional<Size> before) {
  if (const auto* resize = std::get_if<Resize>(&transform)) {
    const Size* size = std::get_if<Size>(&resize->size);
    if (size != nullptr) {
      return *size;
    }
    return before ? std::optional(get_params(*resize, *before)) : std::nullopt;
  }
  if (const auto* crop = std::get_if<CenterCrop>(&transform)) {
    return crop->size;
  }
  if (const auto* crop = std::get_if<RandomCrop>(&transform)) {
    return crop->size;
  }
  if (const auto* crop = std::get_if<RandomResizedCrop>(&transform)) {
    return crop->size;
  }
  return std::holds_alternative<Lambda>(transform) ? std::nullopt : before;
}

}  // namespace

Compose::Compose(std::vector<Transform> transforms) : table_(to_tensor_table()) {
  check_transforms(transforms);
  const auto to_tensor = std::ranges::find_if(
      transforms, [](const Transform& t) { return std::holds_alternative<ToTensor>(t); });
  on_bytes_.assign(transforms.begin(), to_tensor);
  for (auto transform = to_tensor + 1; transform != transforms.end(); ++transform) {
    const auto* by = std::get_if<Normalize>(&*transform);
    if (by != nullptr && on_floats_.empty()) {
      normalize(table_, *by);
    } else {
      on_floats_.push_back(*transform);
    }
  }
  for (const Transform& transform : on_bytes_) {
    output_size_ = size_behind(transform, output_size_);
  }
}

void Compose::require_room(std::span<float> out) const {
  if (!output_size_) {
    throw UsageError(
        "Compose::apply: the size of the result depends on the picture; end with a crop, or take "
        "the form that returns a FloatImage");
  }
  const std::int64_t expected = 3 * output_size_->height * output_size_->width;
  if (static_cast<std::int64_t>(out.size()) != expected) {
    throw UsageError("Compose::apply: there is room for " + std::to_string(out.size()) +
                     " floats, expected " + std::to_string(expected));
  }
}

void Compose::run(LazyImage& image, std::size_t first, SampleRandom& random) const {
  for (std::size_t i = first; i < on_bytes_.size(); ++i) {
    std::visit(OnBytes(image, random), on_bytes_[i]);
  }
}

void Compose::finish(const LazyImage& image, SampleRandom& random, std::span<float> out) const {
  image.write(table_, out);
  apply_to_floats(on_floats_, image.size(), out, random);
}

FloatImage Compose::finish(const LazyImage& image, SampleRandom& random) const {
  const Size size = image.size();
  image.require_possible();
  FloatImage result{.size = size,
                    .values = std::make_unique_for_overwrite<float[]>(
                        static_cast<std::size_t>(3 * size.height * size.width))};
  finish(image, random, result.span());
  return result;
}

void Compose::apply(ImageView image, SampleRandom random, std::span<float> out) const {
  require_room(out);
  LazyImage lazy(image);
  run(lazy, 0, random);
  finish(lazy, random, out);
}

FloatImage Compose::apply(ImageView image, SampleRandom random) const {
  LazyImage lazy(image);
  run(lazy, 0, random);
  return finish(lazy, random);
}

// The first transform may need a part of the picture alone; it is done by decoding that.
LazyImage Compose::run_on_file(std::span<const std::byte> file, const DecodeOptions& decoding,
                               SampleRandom& random) const {
  FirstStep first;
  DecodedPart part = decode_part(
      file,
      [&](Size size) {
        first = on_bytes_.empty() ? whole_picture(size)
                                  : std::visit(ChooseFirst(size, random), on_bytes_.front());
        return first.wanted;
      },
      decoding);
  LazyImage lazy(std::move(part.image), part.box, first.wanted.size, first.interpolation);
  run(lazy, first.is_done ? 1 : 0, random);
  return lazy;
}

void Compose::apply_to_file(std::span<const std::byte> file, const DecodeOptions& decoding,
                            SampleRandom random, std::span<float> out) const {
  require_room(out);
  finish(run_on_file(file, decoding, random), random, out);
}

FloatImage Compose::apply_to_file(std::span<const std::byte> file, const DecodeOptions& decoding,
                                  SampleRandom random) const {
  return finish(run_on_file(file, decoding, random), random);
}

}  // namespace lockstep::data
