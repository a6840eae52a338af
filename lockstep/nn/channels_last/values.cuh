// Values of eight channels as a thread has them, and the order of kernels in a stream.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

#include "lockstep/nn/batch_norm_channels_last.h"

namespace lockstep::nn::channels_last {

struct Eight {
  float at[kChannelsAtOnce];
};

template <Element kElement>
__device__ inline float2 widen(unsigned bits) {
  if constexpr (kElement == Element::kBFloat16) {
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000U));
  } else {
    __half2 pair;
    memcpy(&pair, &bits, sizeof(bits));
    return __half22float2(pair);
  }
}

template <Element kElement>
__device__ inline unsigned narrow(float low, float high) {
  unsigned bits = 0;
  if constexpr (kElement == Element::kBFloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    memcpy(&bits, &pair, sizeof(bits));
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    memcpy(&bits, &pair, sizeof(bits));
  }
  return bits;
}

template <Element kElement>
__device__ inline Eight unpack(const uint4& raw) {
  const float2 a = widen<kElement>(raw.x);
  const float2 b = widen<kElement>(raw.y);
  const float2 c = widen<kElement>(raw.z);
  const float2 d = widen<kElement>(raw.w);
  return {{a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y}};
}

template <Element kElement>
__device__ inline uint4 pack(const Eight& v) {
  return make_uint4(narrow<kElement>(v.at[0], v.at[1]), narrow<kElement>(v.at[2], v.at[3]),
                    narrow<kElement>(v.at[4], v.at[5]), narrow<kElement>(v.at[6], v.at[7]));
}

// Loads the floats of the vector's eight channels. `floats` must be aligned to kAlignment.
__device__ inline Eight load_floats(const float* floats, int vector) {
  const auto* quads = reinterpret_cast<const float4*>(floats) + 2 * vector;
  const float4 a = quads[0];
  const float4 b = quads[1];
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

// The next kernel of the stream may be set up from now on. It sees nothing of this one before
// wait_for_previous() returns there, which is when this one has ended. Pointers to what this one
// writes are not __restrict__ there: the compiler could load through them before the wait.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

}  // namespace lockstep::nn::channels_last
