#include "lockstep/data/loader/mixup.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/one_hot.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

std::string described(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes() << " of " << tensor.dtype();
  return text.str();
}

void check_alpha(const char* who, double alpha) {
  if (!(alpha > 0) || !std::isfinite(alpha)) {
    throw UsageError(std::string(who) + ": alpha is " + std::to_string(alpha) +
                     ", expected more than 0");
  }
}

void check_batch(const char* who, const Sample& batch, std::int64_t num_classes) {
  const at::Tensor& images = batch.data;
  const at::Tensor& labels = batch.target;
  const auto refuse = [&](const std::string& what) {
    throw UsageError(std::string(who) + ": " + what);
  };
  if (!images.defined() || images.dim() != 4) {
    refuse("the images are " + (images.defined() ? described(images) : "not there") +
           ", expected [batch, channels, height, width]");
  }
  if (images.size(2) == 0 || images.size(3) == 0) {
    refuse("the images are " + described(images) + ", expected one pixel or more in each");
  }
  if (!labels.defined() || labels.dim() < 1 || labels.dim() > 2) {
    refuse("the labels are " + (labels.defined() ? described(labels) : "not there") +
           ", expected [batch] or probabilities [batch, num_classes]");
  }
  if (labels.size(0) != images.size(0)) {
    refuse("there are " + std::to_string(images.size(0)) + " images and " +
           std::to_string(labels.size(0)) + " labels, expected as many");
  }
  if (labels.dim() == 1 && !at::isIntegralType(labels.scalar_type(), /*includeBool=*/false)) {
    refuse("the labels are " + described(labels) +
           ", expected integers, or probabilities [batch, num_classes]");
  }
  if (labels.dim() == 1 && num_classes <= 0) {
    refuse("labels are numbers of classes and num_classes is not given, expected it to be");
  }
  if (labels.dim() == 2 && num_classes > 0 && labels.size(1) != num_classes) {
    refuse("labels have " + std::to_string(labels.size(1)) + " classes, expected num_classes, " +
           std::to_string(num_classes));
  }
  if (labels.dim() == 1) {
    const auto most = labels.numel() > 0 ? labels.max().item<std::int64_t>() : 0;
    const auto least = labels.numel() > 0 ? labels.min().item<std::int64_t>() : 0;
    if (least < 0 || most >= num_classes) {
      refuse("there are labels from " + std::to_string(least) + " to " + std::to_string(most) +
             ", expected 0 to num_classes - 1, " + std::to_string(num_classes - 1));
    }
  }
}

// In torchvision's order, so that the last bits are its.
at::Tensor weighted_mean(const at::Tensor& all, double lambda) {
  return all.roll(1, 0).mul_(1.0 - lambda).add_(all.mul(lambda));
}

at::Tensor mixed_labels(at::Tensor labels, double lambda, std::int64_t num_classes) {
  if (labels.dim() == 1) {
    labels = at::one_hot(labels.to(at::kLong), num_classes);
  }
  return weighted_mean(labels.is_floating_point() ? labels : labels.to(at::kFloat), lambda);
}

}  // namespace

double get_params(const MixUp& mixup, SampleRandom& random) {
  check_alpha("MixUp", mixup.alpha);
  return random.beta(mixup.alpha);
}

Box get_params(const CutMix& cutmix, Size image, SampleRandom& random) {
  check_alpha("CutMix", cutmix.alpha);
  if (image.width <= 0 || image.height <= 0) {
    throw UsageError("CutMix: the images have " + std::to_string(image.height) + "x" +
                     std::to_string(image.width) + " pixels, expected one or more");
  }
  const double lambda = random.beta(cutmix.alpha);
  const std::int64_t x = random.below(image.width);
  const std::int64_t y = random.below(image.height);
  const double half = 0.5 * std::sqrt(1.0 - lambda);
  const auto half_width = static_cast<std::int64_t>(half * static_cast<double>(image.width));
  const auto half_height = static_cast<std::int64_t>(half * static_cast<double>(image.height));
  Box box{.left = std::max(x - half_width, std::int64_t{0}),
          .top = std::max(y - half_height, std::int64_t{0})};
  box.width = std::min(x + half_width, image.width) - box.left;
  box.height = std::min(y + half_height, image.height) - box.top;
  return box;
}

Sample mixed_up(const Sample& batch, double lambda, std::int64_t num_classes) {
  check_batch("MixUp", batch, num_classes);
  if (!batch.data.is_floating_point()) {
    throw UsageError("MixUp: the images are " + described(batch.data) +
                     ", expected floats; put ToTensor before it");
  }
  return {weighted_mean(batch.data, lambda), mixed_labels(batch.target, lambda, num_classes)};
}

Sample cut_and_mixed(const Sample& batch, const Box& box, std::int64_t num_classes) {
  check_batch("CutMix", batch, num_classes);
  const auto part = [&](const at::Tensor& images) {
    return images.narrow(2, box.top, box.height).narrow(3, box.left, box.width);
  };
  at::Tensor images = batch.data.clone();
  part(images).copy_(part(batch.data).roll(1, 0));
  const auto pixels = static_cast<double>(images.size(2) * images.size(3));
  const double lambda = 1.0 - static_cast<double>(box.width * box.height) / pixels;
  return {std::move(images), mixed_labels(batch.target, lambda, num_classes)};
}

// The batch is a copy of two tensors, whose memory is nobody else's.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Sample MixUp::operator()(Sample batch, SampleRandom& random) const {
  return mixed_up(batch, get_params(*this, random), num_classes);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
Sample CutMix::operator()(Sample batch, SampleRandom& random) const {
  check_batch("CutMix", batch, num_classes);
  const Size size{batch.data.size(2), batch.data.size(3)};
  return cut_and_mixed(batch, get_params(*this, size, random), num_classes);
}

RandomChoice::RandomChoice(std::vector<BatchTransform> transforms, std::vector<double> p)
    : transforms_(std::move(transforms)), p_(std::move(p)) {
  if (transforms_.empty()) {
    throw UsageError("RandomChoice: there is no transform, expected one or more");
  }
  if (p_.empty()) {
    p_.assign(transforms_.size(), 1);
  }
  const double sum = std::accumulate(p_.begin(), p_.end(), 0.0);
  const bool is_negative = std::ranges::any_of(p_, [](double each) { return !(each >= 0); });
  if (p_.size() != transforms_.size() || is_negative || !(sum > 0) || !std::isfinite(sum)) {
    throw UsageError("RandomChoice: p has " + std::to_string(p_.size()) + " numbers with the sum " +
                     std::to_string(sum) + ", expected " + std::to_string(transforms_.size()) +
                     ", one for each transform, and not 0");
  }
  for (double& each : p_) {
    each /= sum;
  }
}

Sample RandomChoice::operator()(Sample batch, SampleRandom& random) const {
  double left = random.uniform();
  std::size_t chosen = 0;
  while (chosen + 1 < p_.size() && left >= p_[chosen]) {
    left -= p_[chosen++];
  }
  return transforms_[chosen](std::move(batch), random);
}

}  // namespace lockstep::data
