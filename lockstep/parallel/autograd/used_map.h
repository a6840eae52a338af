// Which parameters took part in a step: on this rank, and on any.
#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "lockstep/comm/group.h"

namespace lockstep::parallel {

class UsedMap {
 public:
  UsedMap(const Group& group, std::size_t parameters, at::Device device);

  void mark(std::size_t parameter);
  // Starts to sum the ranks' maps; a collective.
  void start_sum();
  // The same for a rank that has no inputs any more: it repeats the result of the last sum. So a
  // parameter that this rank used in its last step counts as used from then on, as in PyTorch.
  void start_sum_again();
  // Waits for the sum only if the parameter was not used here.
  [[nodiscard]] bool anywhere(std::size_t parameter);
  // Waits for the sum, if nobody did.
  void finish_sum();
  void clear();

 private:
  void sum();

  Group group_;
  at::Tensor used_;       // int32 on the CPU, as Python's DDP has it.
  at::Tensor on_device_;  // What travels.
  c10::intrusive_ptr<c10d::Work> sum_;
  bool summed_ = false;
};

}  // namespace lockstep::parallel
