// Ranks that use the shared-memory backend as c10d's users do.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tests/comm/ranks.h"

namespace lockstep::testing {

using Tensors = std::vector<at::Tensor>;

inline void on_ranks(int world_size, const std::function<void(Group&)>& body) {
  run_ranks(world_size, body, "shm");
}

inline c10::intrusive_ptr<c10d::Work> all_reduce(Group& world, const at::Tensor& tensor,
                                                 const c10d::ReduceOp& op = c10d::ReduceOp::SUM) {
  Tensors tensors{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  return world.backend()->allreduce(tensors, options);
}

// torch.distributed._make_nccl_premul_sum; its C++ name differs between versions.
inline c10d::ReduceOp premultiplied_sum(double factor) {
  c10d::ReduceOp op;
  op.op_ = c10d::ReduceOp::PREMUL_SUM;
  op.supplement_ = c10::make_intrusive<c10d::NCCLPreMulSumSupplement>(factor);
  return op;
}

}  // namespace lockstep::testing
