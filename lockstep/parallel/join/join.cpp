#include "lockstep/parallel/join/join.h"

#include <ATen/ops/full.h>

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::parallel {

Join::Join(const Group& group, at::Device device, const JoinOptions& options)
    : group_(group), device_(device), options_(options) {}

at::Tensor Join::filled(double value, at::ScalarType type) const {
  return at::full({1}, value, at::TensorOptions(type).device(device_));
}

void Join::begin_forward() {
  for (auto* work : {&count_, &told_}) {  // From the forward before.
    if (*work) {
      (*work)->wait();
    }
  }
  active_ = filled(1);
  count_ = group_.all_reduce(active_);
  if (!options_.throw_on_early_termination) {
    return;
  }
  const auto ended = filled(0);
  group_.all_reduce(ended).wait();
  group_.synchronize(device_);
  if (ended.item<double>() > 0) {
    throw UsageError("join: at least one rank has no more inputs, so all ranks stop here");
  }
}

int Join::divisor() {
  count_->wait();
  group_.synchronize(device_);
  return options_.divide_by_initial_world_size ? group_.size() : active_.item<int>();
}

int Join::shadow_forward() {
  const auto active = filled(0);
  group_.all_reduce(active).wait();
  group_.synchronize(device_);
  const int count = active.item<int>();
  if (count > 0 && options_.throw_on_early_termination) {
    group_.all_reduce(filled(1)).wait();
    throw UsageError("join: rank " + std::to_string(group_.rank()) + " has no more inputs, and " +
                     std::to_string(count) + " of " + std::to_string(group_.size()) +
                     " ranks have some; all ranks stop here");
  }
  return count;
}

int Join::common_rank(bool candidate) const {
  const auto rank = filled(candidate ? group_.rank() : -1, at::kLong);
  group_.all_reduce(rank, {.op = ReduceOp::kMax}).wait();
  group_.synchronize(device_);
  return rank.item<int>();
}

void Join::tell_synchronized(bool says_so) {
  answer_ = filled(says_so ? 1 : 0);
  told_ = group_.all_reduce(answer_);
}

bool Join::others_synchronize() const {
  const auto answer = filled(0);
  group_.all_reduce(answer).wait();
  group_.synchronize(device_);
  return answer.item<double>() > 0;
}

}  // namespace lockstep::parallel
