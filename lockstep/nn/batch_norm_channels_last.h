// Kernels of our own for batch normalization in training: half precision, channels_last, one GPU.
//
// LibTorch is not needed here: memory and stream are the caller's. Sums are made in float32, in an
// order that depends on the shape and the GPU's size alone, so the same input gives the same bits.
// Nothing waits for the GPU or allocates, so calls can be recorded in a CUDA graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace lockstep::nn::channels_last {

enum class Element { kHalf, kBFloat16 };

// A matrix whose rows are pixels: N, H and W of a tensor in channels_last are its rows.
struct Matrix {
  std::int64_t rows = 0;      // At least 2.
  std::int64_t channels = 0;  // A multiple of kChannelsAtOnce.
  Element element = Element::kBFloat16;
};

// A thread loads so many at once, so matrices must be aligned to kAlignment bytes.
constexpr int kChannelsAtOnce = 8;
constexpr int kAlignment = 16;

// What the kernels were compiled for decides, not the GPU alone: code for another one may be
// missing here, or may have been made for an older one, and then does not wait where launches
// overlap.
struct Support {
  bool runs = false;
  bool overlaps = false;
};
Support support_of_current_device();

struct Gpu {
  int multiprocessors = 1;
  // A kernel is set up while the one before it still runs; Support::overlaps.
  bool overlap_launches = false;
  cudaStream_t stream = nullptr;
};

// Floats of scratch memory for one call of forward() or backward(). It must be aligned to
// kAlignment, as must `mean`; other vectors need not be.
std::int64_t scratch_floats(const Matrix& matrix, const Gpu& gpu);

struct Forward {
  const void* input = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float momentum = 0.1F;
  float eps = 1e-5F;
  float* running_mean = nullptr;  // Updated; null, as running_var, if there is none.
  float* running_var = nullptr;
  void* output = nullptr;
  float* mean = nullptr;    // The batch's, for backward().
  float* invstd = nullptr;  // 1 / sqrt(variance + eps).
  float* scratch = nullptr;
};

struct Backward {
  const void* output_gradient = nullptr;
  const void* input = nullptr;
  const float* weight = nullptr;
  const float* mean = nullptr;
  const float* invstd = nullptr;
  void* input_gradient = nullptr;  // Null: not wanted.
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
  float* scratch = nullptr;
};

// Three launches each, on the current device. They give back the error of the first launch that
// was refused, which no later call of cudaGetLastError() tells again.
cudaError_t forward(const Matrix& matrix, const Forward& call, const Gpu& gpu);
cudaError_t backward(const Matrix& matrix, const Backward& call, const Gpu& gpu);

}  // namespace lockstep::nn::channels_last
