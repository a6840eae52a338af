// What a backend can do that c10d does not promise of every one.
#pragma once

#include <set>

namespace lockstep {

enum class Capability {
  // Tensors with gaps, unequal sizes, every dtype, averages: nothing has to be composed.
  kEverything,
  // AVG in each reduction of tensors of equal shapes.
  kAverages,
  // PREMUL_SUM of float32 and float64.
  kPremultiplies,
  // PREMUL_SUM of every floating-point type on a GPU; it may fuse the product with the sum.
  kPremultipliesOnGpu,
  // Its collectives run on the GPU alone: they can be recorded as a part of a CUDA graph.
  kRecordable,
  // Several ranks may use one GPU.
  kSharesGpus,
  // getSequenceNumberForGroup() counts its collectives, and its errors have that number.
  kNumbers,
  // It speaks over network interfaces that can be chosen.
  kChoosesInterfaces,
  // A thread of its own completes the futures of its works, in any case.
  kCompletesFutures,
};

using Capabilities = std::set<Capability>;

}  // namespace lockstep
