// Compiled where CUDA is found; missing.cpp stands in elsewhere.
#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "lockstep/comm/backend_registry.h"

namespace lockstep {
namespace {

// Turns LibTorch's dumps off, unless the user has set the variable. For them a monitor asks the
// store every second, without a time limit: a store that does not answer would hold up destroy()
// for ever.
void leave_dumps_out() { ::setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", /*replace=*/0); }

c10::intrusive_ptr<c10d::Backend> make_nccl(const BackendRequest& request) {
  leave_dumps_out();
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = request.timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(request.store, request.rank, request.size,
                                                     options);
}

}  // namespace

void register_nccl(BackendRegistry& registry) {
  registry.add("nccl", {c10::kCUDA}, make_nccl,
               {Capability::kAverages, Capability::kPremultipliesOnGpu, Capability::kRecordable,
                Capability::kShutdownWaits});
}

}  // namespace lockstep
