// The loops of MaxPool2d: the largest of each 2 x 2 values, without LibTorch.
//
// LibTorch's are scalar for this layout and store an index of 8 bytes for each result. These
// compare again in backward, with what the layer before has kept anyway, and vectorize.
#pragma once

#include <cstdint>

namespace lockstep::nn::halve {

// Images of height x width values one after the other. Both are at least 2; an odd last row or
// column belongs to no result.
struct Planes {
  std::int64_t count = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

// A NaN is larger than all else; of equal values the first counts, of several NaNs the last. So do
// PyTorch's kernels.
void forward(const Planes& planes, const float* input, float* output);
// `input_gradient` gets the gradient of a result where that came from, and 0 elsewhere.
void backward(const Planes& planes, const float* input, const float* output_gradient,
              float* input_gradient);

}  // namespace lockstep::nn::halve
