// Forward and backward read the matrix twice each: once for sums over the rows, once to write the
// result. Between them a small kernel combines the sums of the blocks. The second reading goes
// backwards: what was read last is still in the L2 cache.
#include "lockstep/nn/batch_norm_channels_last.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "lockstep/nn/channels_last/backward.cuh"
#include "lockstep/nn/channels_last/forward.cuh"

namespace lockstep::nn::channels_last {
namespace {

constexpr int kFactors = 3;  // At most, of each channel, between the second and the third kernel.

struct Plan {
  Size size;
  dim3 block;
  unsigned tiles;  // Blocks beside each other, over the channels.

  [[nodiscard]] std::int64_t chunk(int unroll) const {
    return static_cast<std::int64_t>(block.y) * unroll;
  }
  // Splits of about `blocks` blocks, all with the same number of chunks, but for the last.
  [[nodiscard]] unsigned splits(int unroll, std::int64_t blocks) const {
    const std::int64_t chunks = (size.rows + chunk(unroll) - 1) / chunk(unroll);
    const std::int64_t wanted = std::max<std::int64_t>(1, blocks / tiles);
    const std::int64_t each = (chunks + wanted - 1) / wanted;
    return static_cast<unsigned>((chunks + each - 1) / each);
  }
  [[nodiscard]] dim3 grid(int unroll, std::int64_t blocks) const {
    return {tiles, splits(unroll, blocks)};
  }
};

// Blocks as wide as possible, with the fewest threads beyond the last channel; but not narrower
// than 128 bytes, or a row: a warp would use less than it loads.
Plan plan_for(const Matrix& matrix) {
  const auto vectors = static_cast<unsigned>(matrix.channels / kChannelsAtOnce);
  const auto tiles_of = [&](unsigned width) { return (vectors + width - 1) / width; };
  unsigned best = kWarp;
  for (unsigned width = kWarp / 2; width >= 1; width /= 2) {
    const bool is_wide = width >= 8 || width >= vectors;
    if (is_wide && tiles_of(width) * width < tiles_of(best) * best) {
      best = width;
    }
  }
  return {{matrix.rows, static_cast<int>(vectors)}, dim3(best, kThreads / best), tiles_of(best)};
}

enum Order { kFirst, kFollows };  // kFollows: the kernel before it in the stream is ours.

struct Threads {
  dim3 grid;
  dim3 block;
  Order order;
};

// A block combines the splits of eight channels, and a thread about four of them.
Threads combining(const Size& size, unsigned splits) {
  unsigned threads = 4;
  while (threads < 128 && threads * 4 < splits) {
    threads *= 2;
  }
  return {dim3(static_cast<unsigned>(size.vectors)), dim3(kChannelsAtOnce, threads), kFollows};
}

struct Launcher {
  const Gpu& gpu;
  cudaError_t error = cudaSuccess;

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), const Threads& threads, Arguments... arguments) {
    if (error != cudaSuccess) {
      return;
    }
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = threads.grid;
    config.blockDim = threads.block;
    config.stream = gpu.stream;
    config.attrs = &attribute;
    config.numAttrs = gpu.overlap_launches && threads.order == kFollows ? 1 : 0;
    error = cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
    if (error != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
    }
  }
};

template <Element kElement>
cudaError_t run_forward(const Plan& plan, const Forward& call, const Gpu& gpu) {
  const auto& size = plan.size;
  const dim3 sums = plan.grid(kForwardRows, kBlocksAtOnce * gpu.multiprocessors);
  const dim3 writes = plan.grid(kForwardRows, kWriteBlocks * gpu.multiprocessors);
  const Splits splits{static_cast<int>(sums.y), plan.chunk(kForwardRows)};
  const auto* input = static_cast<const uint4*>(call.input);
  float* factors = call.scratch;
  float* partial = call.scratch + kFactors * size.channels();
  Launcher launch{gpu};
  launch(sum_input<kElement>, {sums, plan.block, kFirst}, input, size, partial);
  launch(finish_statistics, combining(size, sums.y), partial, size, splits, call, factors);
  launch(write_output<kElement>, {writes, plan.block, kFollows}, input, size, call.mean, factors,
         static_cast<uint4*>(call.output));
  return launch.error;
}

template <Element kElement>
cudaError_t run_backward(const Plan& plan, const Backward& call, const Gpu& gpu) {
  const auto& size = plan.size;
  const dim3 sums = plan.grid(kBackwardRows, kBlocksAtOnce * gpu.multiprocessors);
  const dim3 writes = plan.grid(kBackwardRows, kWriteBlocks * gpu.multiprocessors);
  const auto* gradient = static_cast<const uint4*>(call.output_gradient);
  const auto* input = static_cast<const uint4*>(call.input);
  float* factors = call.scratch;
  float* partial = call.scratch + kFactors * size.channels();
  Launcher launch{gpu};
  launch(sum_gradient<kElement>, {sums, plan.block, kFirst}, gradient, input, size, call.mean,
         partial);
  launch(finish_gradient, combining(size, sums.y), partial, size, static_cast<int>(sums.y), call,
         factors);
  if (call.input_gradient != nullptr) {
    launch(write_gradient<kElement>, {writes, plan.block, kFollows}, gradient, input, size,
           call.mean, factors, static_cast<uint4*>(call.input_gradient));
  }
  return launch.error;
}

}  // namespace

Support support_of_current_device() {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, finish_statistics) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  return {true, attributes.ptxVersion >= 90};
}

std::int64_t scratch_floats(const Matrix& matrix, const Gpu& gpu) {
  const Plan plan = plan_for(matrix);
  const std::int64_t blocks = kBlocksAtOnce * gpu.multiprocessors;
  const auto splits =
      std::max(plan.splits(kForwardRows, blocks), plan.splits(kBackwardRows, blocks));
  return (kFactors + 2 * static_cast<std::int64_t>(splits)) * matrix.channels;
}

cudaError_t forward(const Matrix& matrix, const Forward& call, const Gpu& gpu) {
  const auto run = matrix.element == Element::kHalf ? run_forward<Element::kHalf>
                                                    : run_forward<Element::kBFloat16>;
  return run(plan_for(matrix), call, gpu);
}

cudaError_t backward(const Matrix& matrix, const Backward& call, const Gpu& gpu) {
  const auto run = matrix.element == Element::kHalf ? run_backward<Element::kHalf>
                                                    : run_backward<Element::kBFloat16>;
  return run(plan_for(matrix), call, gpu);
}

}  // namespace lockstep::nn::channels_last
