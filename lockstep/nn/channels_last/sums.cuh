// Sums over the threads of a block, and over the splits of a matrix.
//
// A block that reads a matrix has x vectors of eight channels by y rows. A chunk is what it reads
// at once: y * unroll rows. Chunk i belongs to split i % splits, so that blocks which run at the
// same time read neighbouring rows.
#pragma once

#include <cstdint>

#include "lockstep/nn/channels_last/values.cuh"

namespace lockstep::nn::channels_last {

constexpr int kWarp = 32;
constexpr int kThreads = 256;  // In a block that reads a matrix.
// Blocks per multiprocessor: those that run at once, and those of a kernel that writes a matrix.
// One that makes sums has as many as run at once, since each is a split to combine.
constexpr int kBlocksAtOnce = 4;
constexpr int kWriteBlocks = 16;
constexpr unsigned kAllLanes = 0xffffffffU;

struct Size {
  std::int64_t rows;
  int vectors;  // Eight channels each.
  [[nodiscard]] __host__ __device__ int channels() const { return vectors * kChannelsAtOnce; }
};

__device__ inline int own_vector() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

// How many rows the blocks of a split have read.
__device__ inline float rows_of_split(std::int64_t rows, std::int64_t chunk, int split,
                                      int splits) {
  const std::int64_t chunks = (rows + chunk - 1) / chunk;
  const std::int64_t own = chunks / splits + (split < chunks % splits ? 1 : 0);
  const bool has_last = (chunks - 1) % splits == split;
  return static_cast<float>(own * chunk - (has_last ? chunks * chunk - rows : 0));
}

// Gives the sums of a block to its split: partial is [splits, 2, channels].
__device__ inline void write_partial(float* partial, const Size& size, int channel, float2 sums) {
  float* own = partial + static_cast<std::int64_t>(blockIdx.y) * 2 * size.channels() + channel;
  own[0] = sums.x;
  own[size.channels()] = sums.y;
}

__device__ inline float2 read_partial(const float* partial, int channels, int split, int channel) {
  const float* own = partial + static_cast<std::int64_t>(split) * 2 * channels + channel;
  return make_float2(own[0], own[channels]);
}

__device__ inline int thread_of_block() {
  return static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
}

// Sums over the rows of a block of kThreads threads, of which x is a power of two up to kWarp. The
// thread i below 8 * blockDim.x gets both sums of the block's channel i; the results of other
// threads are undefined.
__device__ inline float2 sum_over_rows(Eight first, Eight second) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ float4 sums[kWarps][2][kWarp * kChannelsAtOnce / 4];
  const int width = static_cast<int>(blockDim.x);
  for (int offset = kWarp / 2; offset >= width; offset /= 2) {
#pragma unroll
    for (int i = 0; i < kChannelsAtOnce; ++i) {
      first.at[i] += __shfl_xor_sync(kAllLanes, first.at[i], offset);
      second.at[i] += __shfl_xor_sync(kAllLanes, second.at[i], offset);
    }
  }
  const int thread = thread_of_block();
  const int lane = thread % kWarp;
  if (lane < width) {
    auto& own = sums[thread / kWarp];
    own[0][2 * lane] = make_float4(first.at[0], first.at[1], first.at[2], first.at[3]);
    own[0][2 * lane + 1] = make_float4(first.at[4], first.at[5], first.at[6], first.at[7]);
    own[1][2 * lane] = make_float4(second.at[0], second.at[1], second.at[2], second.at[3]);
    own[1][2 * lane + 1] = make_float4(second.at[4], second.at[5], second.at[6], second.at[7]);
  }
  __syncthreads();
  float2 total = make_float2(0, 0);
  if (thread < width * kChannelsAtOnce) {
    for (const auto& warp : sums) {
      total.x += reinterpret_cast<const float*>(warp[0])[thread];
      total.y += reinterpret_cast<const float*>(warp[1])[thread];
    }
  }
  return total;
}

// Sums each(split) over all splits, for a block of 8 channels (x) and a multiple of 4 threads per
// channel (y). The threads of y = 0 get their channel's sums; the results of others are
// undefined.
template <class Each>
__device__ inline float2 sum_over_splits(int splits, const Each& each) {
  __shared__ float2 sums[kWarp][kChannelsAtOnce];
  float2 total = make_float2(0, 0);
#pragma unroll 4
  for (int split = static_cast<int>(threadIdx.y); split < splits;
       split += static_cast<int>(blockDim.y)) {
    const float2 value = each(split);
    total.x += value.x;
    total.y += value.y;
  }
  for (int offset = kWarp / 2; offset >= kChannelsAtOnce; offset /= 2) {
    total.x += __shfl_xor_sync(kAllLanes, total.x, offset);
    total.y += __shfl_xor_sync(kAllLanes, total.y, offset);
  }
  const int thread = thread_of_block();
  if (thread % kWarp < kChannelsAtOnce) {
    sums[thread / kWarp][thread % kWarp] = total;
  }
  __syncthreads();
  if (threadIdx.y == 0) {
    const int warps = static_cast<int>(blockDim.x * blockDim.y) / kWarp;
    for (int warp = 1; warp < warps; ++warp) {
      total.x += sums[warp][threadIdx.x].x;
      total.y += sums[warp][threadIdx.x].y;
    }
  }
  return total;
}

}  // namespace lockstep::nn::channels_last
