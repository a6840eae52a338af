#include "lockstep/parallel/autograd/used_map.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace lockstep::parallel {

UsedMap::UsedMap(const Group& group, std::size_t parameters, at::Device device)
    : group_(group),
      used_(at::zeros({static_cast<std::int64_t>(parameters)}, at::kInt)),
      on_device_(at::zeros({static_cast<std::int64_t>(parameters)},
                           at::TensorOptions(at::kInt).device(device))) {}

void UsedMap::mark(std::size_t parameter) { used_.mutable_data_ptr<int>()[parameter] = 1; }

void UsedMap::start_sum() {
  if (on_device_.is_cuda()) {
    // The copy runs later than clear(): it needs values of its own, in memory that it can read.
    const auto pinned = at::empty_like(used_, used_.options().pinned_memory(true));
    pinned.copy_(used_);
    on_device_.copy_(pinned, /*non_blocking=*/true);
  } else {
    on_device_.copy_(used_);
  }
  sum();
}

void UsedMap::start_sum_again() { sum(); }

void UsedMap::sum() {
  std::vector<at::Tensor> tensors{on_device_};
  sum_ = group_.process_group()->allreduce(tensors);
  summed_ = false;
}

bool UsedMap::anywhere(std::size_t parameter) {
  if (used_.const_data_ptr<int>()[parameter] == 0 && !summed_) {
    sum_->wait();
    used_.copy_(on_device_);
    summed_ = true;
  }
  return used_.const_data_ptr<int>()[parameter] != 0;
}

void UsedMap::finish_sum() {
  if (!summed_ && sum_) {
    sum_->wait();
  }
}

void UsedMap::clear() {
  used_.zero_();
  summed_ = false;
}

}  // namespace lockstep::parallel
