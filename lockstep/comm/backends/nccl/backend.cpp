// Compiled where CUDA is found; missing.cpp stands in elsewhere.
#include <cstdlib>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "lockstep/comm/backend_registry.h"

namespace lockstep {
namespace {

// Turns LibTorch's dumps off, unless the user has set the variable. For them a monitor asks the
// store every second, without a time limit: a store that does not answer would hold up destroy()
// for ever. And after a timeout LibTorch waits a minute for dumps, whether there are any or not.
void leave_dumps_out() {
  constexpr const char* kDumps = "TORCH_NCCL_DUMP_ON_TIMEOUT";
  ::setenv(kDumps, "0", /*replace=*/0);
  if (std::string_view(std::getenv(kDumps)) == "0") {
    ::setenv("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000", /*replace=*/0);
  }
}

// After a timeout LibTorch ends the process. Launchers set 1: it aborts NCCL before that, which
// waits for recorded steps, and nobody ends those. 3 leaves the abort out.
void end_without_abort() {
  constexpr const char* kHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
  const char* const set = std::getenv(kHandling);
  if (set != nullptr && std::string_view(set) == "1") {
    ::setenv(kHandling, "3", /*replace=*/1);
  }
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const BackendRequest& request) {
  leave_dumps_out();
  end_without_abort();
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = request.timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(request.store, request.rank, request.size,
                                                     options);
}

}  // namespace

void register_nccl(BackendRegistry& registry) {
  registry.add("nccl", {c10::kCUDA}, make_nccl,
               {Capability::kAverages, Capability::kPremultipliesOnGpu, Capability::kRecordable,
                Capability::kShutdownWaits, Capability::kFirstWaitsForAll});
}

}  // namespace lockstep
