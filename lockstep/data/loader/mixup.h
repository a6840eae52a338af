// Mixing the images of a batch with each other: torchvision's v2.MixUp, v2.CutMix and
// v2.RandomChoice between them, with its names, parameters and defaults.
//
//   DataLoader loader(images, {.batch_size = 64,
//                              .batch_transform = RandomChoice({MixUp{.num_classes = 10},
//                                                               CutMix{.num_classes = 10}})});
//
// Each image is mixed with the one before it in the batch, the first with the last. Labels of
// classes, int64 [batch], become probabilities, float32 [batch, num_classes]; labels that are
// probabilities already stay so. Whether they are smoothed too is up to the loss.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/data/datasets/dataset.h"
#include "lockstep/data/decode/image.h"
#include "lockstep/data/transforms/random.h"

namespace lockstep::data {

// Makes another batch of a batch. Threads call it at the same time.
using BatchTransform = std::function<Sample(Sample, SampleRandom&)>;

// The weighted mean of two images, lambda of the image itself; lambda from Beta(alpha, alpha).
struct MixUp {
  double alpha = 1.0;
  std::int64_t num_classes = 0;  // 0: labels must be probabilities.

  // Throws UsageError if a parameter, the images or the labels make no sense.
  Sample operator()(Sample batch, SampleRandom& random) const;
};

// A box of the other image in the place of the same box; the area is 1 - lambda of the image, less
// what lies beyond its border.
struct CutMix {
  double alpha = 1.0;
  std::int64_t num_classes = 0;

  Sample operator()(Sample batch, SampleRandom& random) const;
};

// One of them for each batch, with the probabilities of `p`, or all alike.
class RandomChoice {
 public:
  // Throws UsageError if there is none, or p has another number or no sum.
  explicit RandomChoice(std::vector<BatchTransform> transforms, std::vector<double> p = {});

  Sample operator()(Sample batch, SampleRandom& random) const;

 private:
  std::vector<BatchTransform> transforms_;
  std::vector<double> p_;  // Their sum is 1.
};

// What a draw decides, and what is done then: what operator() above is made of.
double get_params(const MixUp& mixup, SampleRandom& random);
Box get_params(const CutMix& cutmix, Size image, SampleRandom& random);
Sample mixed_up(const Sample& batch, double lambda, std::int64_t num_classes);
Sample cut_and_mixed(const Sample& batch, const Box& box, std::int64_t num_classes);

}  // namespace lockstep::data
