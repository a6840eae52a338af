// The three kernels of forward().
#pragma once

#include <cstdint>

#include "lockstep/nn/channels_last/sums.cuh"

namespace lockstep::nn::channels_last {

constexpr int kForwardRows = 4;  // That a thread has in flight.

// Mean, and squared distances from it, of each split. Sums are of the distance from the split's
// first row: squares of the values themselves would lose a small variance beside a large mean.
template <Element kElement>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    sum_input(const uint4* __restrict__ input, Size size, float* __restrict__ partial) {
  let_next_begin();
  const std::int64_t chunk = static_cast<std::int64_t>(blockDim.y) * kForwardRows;
  const std::int64_t first = blockIdx.y * chunk;
  const int vector = own_vector();
  Eight sum{};
  Eight squares{};
  if (vector < size.vectors) {
    const uint4 raw_origin = input[first * size.vectors + vector];
    const Eight origin = unpack<kElement>(raw_origin);
    for (std::int64_t begin = first + threadIdx.y; begin < size.rows; begin += gridDim.y * chunk) {
      uint4 raw[kForwardRows];
#pragma unroll
      for (int i = 0; i < kForwardRows; ++i) {
        const std::int64_t row = begin + i * static_cast<std::int64_t>(blockDim.y);
        raw[i] = row < size.rows ? input[row * size.vectors + vector] : raw_origin;  // Adds 0.
      }
#pragma unroll
      for (int i = 0; i < kForwardRows; ++i) {
        const Eight x = unpack<kElement>(raw[i]);
#pragma unroll
        for (int k = 0; k < kChannelsAtOnce; ++k) {
          const float distance = x.at[k] - origin.at[k];
          sum.at[k] += distance;
          squares.at[k] = fmaf(distance, distance, squares.at[k]);
        }
      }
    }
  }
  const float2 total = sum_over_rows(sum, squares);
  const int thread = thread_of_block();
  const int channel = static_cast<int>(blockIdx.x * blockDim.x) * kChannelsAtOnce + thread;
  if (thread < static_cast<int>(blockDim.x) * kChannelsAtOnce && channel < size.channels()) {
    const auto* elements = reinterpret_cast<const unsigned short*>(input);
    const float origin = widen<kElement>(elements[first * size.channels() + channel]).x;
    const float rows =
        rows_of_split(size.rows, chunk, static_cast<int>(blockIdx.y), static_cast<int>(gridDim.y));
    const float from_origin = total.x / rows;
    write_partial(partial, size, channel,
                  make_float2(origin + from_origin, fmaxf(total.y - total.x * from_origin, 0)));
  }
}

struct Splits {
  int count;
  std::int64_t chunk;
};

// `factors` is [2, channels]: weight * invstd and bias, for write_output().
static __global__ void finish_statistics(const float* partial, Size size, Splits splits,
                                         Forward call, float* factors) {
  let_next_begin();
  wait_for_previous();
  const int channels = size.channels();
  const int channel =
      static_cast<int>(blockIdx.x) * kChannelsAtOnce + static_cast<int>(threadIdx.x);
  const float origin = partial[channel];
  const float2 sums = sum_over_splits(splits.count, [&](int split) {
    const float2 own = read_partial(partial, channels, split, channel);
    const float rows = rows_of_split(size.rows, splits.chunk, split, splits.count);
    const float distance = own.x - origin;
    return make_float2(rows * distance, fmaf(rows * distance, distance, own.y));
  });
  if (threadIdx.y != 0) {
    return;
  }
  const auto rows = static_cast<float>(size.rows);
  const float from_origin = sums.x / rows;
  const float mean = origin + from_origin;
  const float squares = fmaxf(sums.y - sums.x * from_origin, 0);
  const float invstd = 1.0F / sqrtf(squares / rows + call.eps);
  call.mean[channel] = mean;
  call.invstd[channel] = invstd;
  factors[channel] = call.weight[channel] * invstd;
  factors[channels + channel] = call.bias[channel];
  if (call.running_mean != nullptr) {
    const float unbiased = squares / (rows - 1);
    float& running_mean = call.running_mean[channel];
    float& running_var = call.running_var[channel];
    running_mean = (1 - call.momentum) * running_mean + call.momentum * mean;
    running_var = (1 - call.momentum) * running_var + call.momentum * unbiased;
  }
}

template <Element kElement>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    write_output(const uint4* __restrict__ input, Size size, const float* mean,
                 const float* factors, uint4* output) {
  wait_for_previous();
  const int vector = own_vector();
  if (vector >= size.vectors) {
    return;
  }
  const Eight means = load_floats(mean, vector);
  const Eight scales = load_floats(factors, vector);
  const Eight biases = load_floats(factors + size.channels(), vector);
  const std::int64_t chunk = static_cast<std::int64_t>(blockDim.y) * kForwardRows;
  const std::int64_t last = size.rows - 1;
  for (std::int64_t begin = blockIdx.y * chunk + threadIdx.y; begin <= last;
       begin += gridDim.y * chunk) {
    uint4 raw[kForwardRows];
#pragma unroll
    for (int i = 0; i < kForwardRows; ++i) {
      const std::int64_t row = last - begin - i * static_cast<std::int64_t>(blockDim.y);
      raw[i] = row >= 0 ? input[row * size.vectors + vector] : uint4{};
    }
#pragma unroll
    for (int i = 0; i < kForwardRows; ++i) {
      const std::int64_t row = last - begin - i * static_cast<std::int64_t>(blockDim.y);
      Eight x = unpack<kElement>(raw[i]);
#pragma unroll
      for (int k = 0; k < kChannelsAtOnce; ++k) {
        x.at[k] = fmaf(x.at[k] - means.at[k], scales.at[k], biases.at[k]);
      }
      if (row >= 0) {
        output[row * size.vectors + vector] = pack<kElement>(x);
      }
    }
  }
}

}  // namespace lockstep::nn::channels_last
