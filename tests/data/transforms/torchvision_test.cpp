// What torchvision makes of Pillow images, we make of them: byte for byte, and bit for bit in
// floats.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/data/transforms/color.h"
#include "lockstep/data/transforms/compose.h"
#include "lockstep/data/transforms/geometry.h"
#include "lockstep/data/transforms/get_params.h"
#include "lockstep/data/transforms/lazy_image.h"
#include "lockstep/data/transforms/rand_augment.h"
#include "lockstep/data/transforms/resample.h"
#include "tests/data/pictures.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using How = std::array<double, 4>;
using Function = std::function<Image(Image, const How&)>;

constexpr Color kFill = {1, 2, 3};
constexpr Normalize kImageNet{.mean = kImageNetMean, .std = kImageNetStd};

std::int64_t whole_number(double value) { return static_cast<std::int64_t>(value); }

Interpolation interpolation_of(const How& how) {
  return how[1] != 0 ? Interpolation::kBilinear : Interpolation::kNearest;
}

Function resize_by(Interpolation interpolation) {
  return [interpolation](const Image& image, const How& how) {
    return resize(image, {whole_number(how[0]), whole_number(how[1])}, interpolation);
  };
}

Function change(void (*adjust)(Image&, double)) {
  return [adjust](Image image, const How& how) {
    adjust(image, how[0]);
    return image;
  };
}

Function pad_by(PaddingMode mode) {
  return [mode](const Image& image, const How& how) {
    return pad(
        image,
        {whole_number(how[0]), whole_number(how[1]), whole_number(how[2]), whole_number(how[3])},
        mode);
  };
}

Image resize_shorter(const Image& image, const Resize& by) {
  return resize(image, get_params(by, {image.height, image.width}), Interpolation::kBilinear);
}

Image augment(Image image, const How& how) {
  const RandAugment augment{.magnitude = static_cast<int>(how[1]),
                            .num_magnitude_bins = static_cast<int>(how[2])};
  // Draws until the operation and the sign are those that are asked for.
  for (std::uint64_t index = 0;; ++index) {
    SampleRandom random(1, 0, index);
    const AugmentStep step = get_params(augment, {image.height, image.width}, random).front();
    if (step.op == static_cast<AugmentOp>(how[0]) && (step.magnitude >= 0) == (how[3] > 0)) {
      return apply(step, augment, std::move(image));
    }
    if (step.op == static_cast<AugmentOp>(how[0]) && step.magnitude == 0) {
      return apply(step, augment, std::move(image));
    }
  }
}

const std::map<std::string, Function>& functions() {
  static const std::map<std::string, Function> all = {
      {"bilinear", resize_by(Interpolation::kBilinear)},
      {"bicubic", resize_by(Interpolation::kBicubic)},
      {"nearest", resize_by(Interpolation::kNearest)},
      {"shorter",
       [](const Image& image, const How& how) {
         return resize_shorter(image, {.size = whole_number(how[0])});
       }},
      {"shorter_limited",
       [](const Image& image, const How& how) {
         return resize_shorter(image,
                               {.size = whole_number(how[0]), .max_size = whole_number(how[1])});
       }},
      {"center_crop",
       [](const Image& image, const How& how) {
         const CenterCrop by{.size = {whole_number(how[0]), whole_number(how[1])}};
         return crop(image, get_params(by, {image.height, image.width}));
       }},
      {"pad_edge", pad_by(PaddingMode::kEdge)},
      {"pad_reflect", pad_by(PaddingMode::kReflect)},
      {"pad_symmetric", pad_by(PaddingMode::kSymmetric)},
      {"rotate",
       [](const Image& image, const How& how) {
         return rotate(image, how[0], interpolation_of(how), kFill);
       }},
      {"shear_x",
       [](const Image& image, const How& how) {
         return affine(image, inverse_affine_matrix({.shear = {how[0], 0}}), interpolation_of(how),
                       kFill);
       }},
      {"shear_y",
       [](const Image& image, const How& how) {
         return affine(image, inverse_affine_matrix({.shear = {0, how[0]}}), interpolation_of(how),
                       kFill);
       }},
      {"translate",
       [](const Image& image, const How& how) {
         const AffineParameters by{.center = {static_cast<double>(image.width) * 0.5,
                                              static_cast<double>(image.height) * 0.5},
                                   .translate = {how[0], how[2]}};
         return affine(image, inverse_affine_matrix(by), interpolation_of(how), kFill);
       }},
      {"brightness", change(adjust_brightness)},
      {"contrast", change(adjust_contrast)},
      {"saturation", change(adjust_saturation)},
      {"sharpness", change(adjust_sharpness)},
      {"hue", change(adjust_hue)},
      {"solarize", change(solarize)},
      {"posterize",
       change([](Image& image, double bits) { posterize(image, static_cast<int>(bits)); })},
      {"autocontrast", change([](Image& image, double) { autocontrast(image); })},
      {"equalize", change([](Image& image, double) { equalize(image); })},
      {"augment", augment},
  };
  return all;
}

std::string floats_text(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

std::string tensor_of(const std::string& name, const Image& image, const How& how) {
  if (name == "tensor_evaluation") {
    const Compose evaluation({Resize{.size = 64}, CenterCrop{.size = 56}, ToTensor{}, kImageNet});
    return floats_text(evaluation.apply(image, SampleRandom(0, 0, 0)).span());
  }
  LazyImage lazy(image);
  lazy.crop({.left = whole_number(how[0]),
             .top = whole_number(how[1]),
             .width = whole_number(how[2]),
             .height = whole_number(how[3])});
  lazy.resize({48, 56}, Interpolation::kBilinear);
  if (name == "tensor_flipped") {
    lazy.flip_horizontally();
  } else if (name == "tensor_upside_down") {
    lazy.flip_vertically();
  }
  NormalizeTable table = to_tensor_table();
  normalize(table, kImageNet);
  std::vector<float> planes(std::size_t{3} * 48 * 56);
  lazy.write(table, planes);
  return floats_text(planes);
}

class Torchvision : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder;
    test::run_python("data/transforms/torchvision_cases.py", {folder_->file("")});
  }
  static void TearDownTestSuite() { delete folder_; }

  static inline test::TemporaryFolder* folder_ = nullptr;
};

// Pillow 13 gives other pixels than those before it, and so do we.
bool is_resampled(const std::string& name) {
  static const std::set<std::string> resampled{"bilinear",          "bicubic", "shorter",
                                               "shorter_limited",   "tensor",  "tensor_flipped",
                                               "tensor_upside_down"};
  return resampled.contains(name);
}

template <typename Number>
bool are_near(const std::string& a, const std::string& b, double distance) {
  std::vector<Number> of_a(a.size() / sizeof(Number));
  std::vector<Number> of_b(of_a.size());
  if (a.size() != b.size()) {
    return false;
  }
  std::memcpy(of_a.data(), a.data(), a.size());
  std::memcpy(of_b.data(), b.data(), b.size());
  return std::ranges::equal(of_a, of_b, [&](Number x, Number y) {
    return std::abs(static_cast<double>(x) - static_cast<double>(y)) <= distance;
  });
}

TEST_F(Torchvision, GivesTheSameBytesAndFloats) {
  const bool is_older_pillow = std::stoi(read_file(folder_->file("pillow"))) < 13;
  std::ifstream list(folder_->file("list"));
  std::map<std::string, int> seen;
  std::string picture;
  std::string number;
  std::string name;
  std::int64_t width = 0;
  std::int64_t height = 0;
  How how{};
  while (list >> picture >> number >> name >> width >> height >> how[0] >> how[1] >> how[2] >>
         how[3]) {
    const Image image = picture_of(read_file(folder_->file(picture + ".in")), {height, width});
    const std::string result = name.starts_with("tensor")
                                   ? tensor_of(name, image, how)
                                   : pixels_text(functions().at(name)(copy_of(image), how));
    const std::string expected = read_file(folder_->file(number + ".out"));
    EXPECT_TRUE(result == expected ||
                (is_older_pillow && is_resampled(name) &&
                 (name.starts_with("tensor") ? are_near<float>(result, expected, 4 / 255.0 / 0.2)
                                             : are_near<std::uint8_t>(result, expected, 4))))
        << "case " << number << ": " << name << " of " << width << "x" << height << ", " << how[0]
        << " " << how[1] << " " << how[2] << " " << how[3];
    ++seen[name];
  }
  EXPECT_EQ(seen.size(), functions().size() + 4);
  for (const auto& [operation, count] : seen) {
    EXPECT_GE(count, 39) << operation;
  }
}

std::vector<std::vector<double>> columns_of(int count,
                                            const std::function<std::vector<double>(int)>& draw) {
  std::vector<std::vector<double>> columns;
  for (int i = 0; i < count; ++i) {
    const std::vector<double> row = draw(i);
    columns.resize(row.size());
    for (std::size_t c = 0; c < row.size(); ++c) {
      columns[c].push_back(row[c]);
    }
  }
  for (auto& column : columns) {
    std::ranges::sort(column);
  }
  return columns;
}

std::vector<double> numbers_of(const Box& box) {
  return {static_cast<double>(box.top), static_cast<double>(box.left),
          static_cast<double>(box.height), static_cast<double>(box.width)};
}

std::vector<double> jitter_numbers(SampleRandom& random) {
  const ColorJitter jitter{.brightness = {0.6, 1.4},
                           .contrast = {0.5, 1.5},
                           .saturation = {0.7, 1.3},
                           .hue = {-0.1, 0.1}};
  std::vector<double> numbers(8);
  double place = 0;
  for (const JitterStep& step : get_params(jitter, random)) {
    const auto which = static_cast<std::size_t>(step.adjustment);
    numbers[which] = place++;
    numbers[which + 4] = step.factor;
  }
  return numbers;
}

// With 10,000 draws each, the distance between the shares below any value is some 0.014 in one of a
// hundred tries (Kolmogorov and Smirnov); quantiles are a percent apart.
TEST_F(Torchvision, DrawsFromTheSameDistributions) {
  constexpr int kDraws = 10'000;
  constexpr Size kImage{90, 160};
  std::map<std::string, std::vector<std::vector<double>>> drawn;
  const auto draw_boxes = [&](const auto& transform) {
    return columns_of(kDraws, [&](int i) {
      SampleRandom random(1, 0, static_cast<std::uint64_t>(i));
      return numbers_of(get_params(transform, kImage, random));
    });
  };
  drawn["resized_crop"] = draw_boxes(RandomResizedCrop{.size = 8});
  drawn["crop"] = draw_boxes(RandomCrop{.size = {40, 50}});
  drawn["erasing"] = columns_of(kDraws, [&](int i) {
    SampleRandom random(1, 0, static_cast<std::uint64_t>(i));
    return numbers_of(get_params(RandomErasing{.p = 1}, kImage, random).value());
  });
  drawn["jitter"] = columns_of(kDraws, [&](int i) {
    SampleRandom random(1, 0, static_cast<std::uint64_t>(i));
    return jitter_numbers(random);
  });

  std::ifstream list(folder_->file("draws"));
  std::map<std::string, std::size_t> column;
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    const std::vector<double>& ours = drawn.at(name).at(column[name]++);
    double quantile = 0;
    for (int percent = 0; words >> quantile; ++percent) {
      const auto below = std::ranges::lower_bound(ours, quantile - 1e-6) - ours.begin();
      const auto not_above = std::ranges::upper_bound(ours, quantile + 1e-6) - ours.begin();
      EXPECT_LE(static_cast<double>(below) / kDraws, percent / 100.0 + 0.025)
          << name << " " << column[name] << " " << quantile;
      EXPECT_GE(static_cast<double>(not_above) / kDraws, percent / 100.0 - 0.025)
          << name << " " << column[name] << " " << quantile;
    }
  }
  EXPECT_EQ(column["resized_crop"] + column["crop"] + column["erasing"] + column["jitter"], 18U);
}

}  // namespace
}  // namespace lockstep::data
