// What a backend can do beyond what c10d promises of every backend.
#pragma once

#include <set>

namespace lockstep {

enum class Capability {
  // Tensors with gaps, unequal sizes, every dtype, averages: nothing has to be composed.
  kEverything,
  // AVG in every reduction of tensors with equal shapes.
  kAverages,
  // PREMUL_SUM of float32 and float64.
  kPremultiplies,
  // PREMUL_SUM of every floating-point type on a GPU; it may fuse the product with the sum.
  kPremultipliesOnGpu,
  // Its collectives run only on the GPU, so they can be recorded as a part of a CUDA graph.
  kRecordable,
  // Several ranks may use one GPU.
  kSharesGpus,
  // getSequenceNumberForGroup() counts its collectives, and its errors have that number.
  kNumbers,
  // It is made only when all ranks have come: the group stands as soon as it is there.
  kWaitsForAllRanks,
  // Its first collective waits for all ranks, without a limit.
  kFirstWaitsForAll,
  // It speaks over network interfaces that can be chosen.
  kChoosesInterfaces,
  // shutdown() waits for collectives, to which nobody may come after an error; abort() does not.
  kShutdownWaits,
  // Its own thread always completes the futures of its works.
  kCompletesFutures,
};

using Capabilities = std::set<Capability>;

}  // namespace lockstep
