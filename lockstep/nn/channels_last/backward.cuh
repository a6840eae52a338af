// The three kernels of backward().
#pragma once

#include <cstdint>

#include "lockstep/nn/channels_last/sums.cuh"

namespace lockstep::nn::channels_last {

constexpr int kBackwardRows = 2;  // That a thread has in flight: two loads each.

// Sums dy and dy * (x - mean) over each split.
template <Element kElement>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    sum_gradient(const uint4* __restrict__ gradient, const uint4* __restrict__ input, Size size,
                 const float* __restrict__ mean, float* __restrict__ partial) {
  let_next_begin();
  const std::int64_t chunk = static_cast<std::int64_t>(blockDim.y) * kBackwardRows;
  const int vector = own_vector();
  Eight sum{};
  Eight products{};
  if (vector < size.vectors) {
    const Eight means = load_floats(mean, vector);
    for (std::int64_t begin = blockIdx.y * chunk + threadIdx.y; begin < size.rows;
         begin += gridDim.y * chunk) {
      uint4 raw_gradient[kBackwardRows];
      uint4 raw_input[kBackwardRows];
#pragma unroll
      for (int i = 0; i < kBackwardRows; ++i) {
        const std::int64_t row = begin + i * static_cast<std::int64_t>(blockDim.y);
        const std::int64_t place = row * size.vectors + vector;
        raw_gradient[i] = row < size.rows ? gradient[place] : uint4{};  // Adds 0.
        raw_input[i] = row < size.rows ? input[place] : uint4{};
      }
#pragma unroll
      for (int i = 0; i < kBackwardRows; ++i) {
        const Eight dy = unpack<kElement>(raw_gradient[i]);
        const Eight x = unpack<kElement>(raw_input[i]);
#pragma unroll
        for (int k = 0; k < kChannelsAtOnce; ++k) {
          sum.at[k] += dy.at[k];
          products.at[k] = fmaf(dy.at[k], x.at[k] - means.at[k], products.at[k]);
        }
      }
    }
  }
  const float2 total = sum_over_rows(sum, products);
  const int thread = thread_of_block();
  const int channel = static_cast<int>(blockIdx.x * blockDim.x) * kChannelsAtOnce + thread;
  if (thread < static_cast<int>(blockDim.x) * kChannelsAtOnce && channel < size.channels()) {
    write_partial(partial, size, channel, total);
  }
}

// `factors` is [3, channels], for write_gradient(): weight * invstd, the mean of dy, and the
// projection of dy on x - mean.
static __global__ void finish_gradient(const float* partial, Size size, int splits, Backward call,
                                       float* factors) {
  let_next_begin();
  wait_for_previous();
  const int channels = size.channels();
  const int channel =
      static_cast<int>(blockIdx.x) * kChannelsAtOnce + static_cast<int>(threadIdx.x);
  const float2 sums = sum_over_splits(
      splits, [&](int split) { return read_partial(partial, channels, split, channel); });
  if (threadIdx.y != 0) {
    return;
  }
  const auto rows = static_cast<float>(size.rows);
  const float invstd = call.invstd[channel];
  call.weight_gradient[channel] = sums.y * invstd;
  call.bias_gradient[channel] = sums.x;
  factors[channel] = call.weight[channel] * invstd;
  factors[channels + channel] = sums.x / rows;
  factors[2 * channels + channel] = sums.y / rows * invstd * invstd;
}

template <Element kElement>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce - 1)
    write_gradient(const uint4* __restrict__ gradient, const uint4* __restrict__ input, Size size,
                   const float* mean, const float* factors, uint4* result) {
  wait_for_previous();
  const int vector = own_vector();
  if (vector >= size.vectors) {
    return;
  }
  const Eight means = load_floats(mean, vector);
  const Eight scales = load_floats(factors, vector);
  const Eight gradient_means = load_floats(factors + size.channels(), vector);
  const Eight projections = load_floats(factors + 2 * size.channels(), vector);
  const std::int64_t chunk = static_cast<std::int64_t>(blockDim.y) * kBackwardRows;
  const std::int64_t last = size.rows - 1;
  for (std::int64_t begin = blockIdx.y * chunk + threadIdx.y; begin <= last;
       begin += gridDim.y * chunk) {
    uint4 raw_gradient[kBackwardRows];
    uint4 raw_input[kBackwardRows];
#pragma unroll
    for (int i = 0; i < kBackwardRows; ++i) {
      const std::int64_t row = last - begin - i * static_cast<std::int64_t>(blockDim.y);
      const std::int64_t place = row * size.vectors + vector;
      raw_gradient[i] = row >= 0 ? gradient[place] : uint4{};
      raw_input[i] = row >= 0 ? input[place] : uint4{};
    }
#pragma unroll
    for (int i = 0; i < kBackwardRows; ++i) {
      const std::int64_t row = last - begin - i * static_cast<std::int64_t>(blockDim.y);
      Eight dy = unpack<kElement>(raw_gradient[i]);
      const Eight x = unpack<kElement>(raw_input[i]);
#pragma unroll
      for (int k = 0; k < kChannelsAtOnce; ++k) {
        const float rest = dy.at[k] - gradient_means.at[k];
        dy.at[k] = fmaf(means.at[k] - x.at[k], projections.at[k], rest) * scales.at[k];
      }
      if (row >= 0) {
        result[row * size.vectors + vector] = pack<kElement>(dy);
      }
    }
  }
}

}  // namespace lockstep::nn::channels_last
