// Compiled where CUDA is found; missing.cpp stands in elsewhere.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "lockstep/comm/backend_registry.h"

namespace lockstep {
namespace {

c10::intrusive_ptr<c10d::Backend> make_nccl(const BackendRequest& request) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = request.timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(request.store, request.rank, request.size,
                                                     options);
}

}  // namespace

void register_nccl(BackendRegistry& registry) {
  registry.add("nccl", {c10::kCUDA}, make_nccl,
               {Capability::kAverages, Capability::kPremultipliesOnGpu, Capability::kRecordable});
}

}  // namespace lockstep
