#include "lockstep/train/optim/parameter_shards.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::optim {
namespace {

// A tensor of a state, as its owner announces it: a line of numbers behind its name.
struct Announced {
  std::int64_t param = 0;
  std::string name;
  int type = 0;
  bool on_cpu = false;
  std::vector<std::int64_t> sizes;
};

std::string announce(const OptimizerState& state) {
  std::ostringstream text;
  for (const auto& [param, tensors] : state.state) {
    for (const auto& [name, tensor] : tensors) {
      text << name << ' ' << param << ' ' << static_cast<int>(tensor.scalar_type()) << ' '
           << tensor.is_cpu() << ' ' << tensor.dim();
      for (const auto size : tensor.sizes()) {
        text << ' ' << size;
      }
      text << '\n';
    }
  }
  return text.str();
}

std::vector<Announced> parse(const std::string& announcement) {
  std::vector<Announced> all;
  std::istringstream text(announcement);
  Announced one;
  std::size_t dimensions = 0;
  while (text >> one.name >> one.param >> one.type >> one.on_cpu >> dimensions) {
    one.sizes.resize(dimensions);
    for (auto& size : one.sizes) {
      text >> size;
    }
    all.push_back(one);
  }
  return all;
}

}  // namespace

std::vector<int> partition_parameters(const std::vector<std::vector<at::Tensor>>& groups,
                                      int ranks) {
  std::vector<int> owners;
  std::vector<std::int64_t> elements(static_cast<std::size_t>(ranks), 0);
  for (const auto& params : groups) {
    const std::size_t first = owners.size();
    owners.resize(first + params.size());
    std::vector<std::size_t> order(params.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](std::size_t i) { return params[i].numel(); });
    for (const std::size_t i : order) {
      const auto least = std::ranges::min_element(elements);
      owners[first + i] = static_cast<int>(least - elements.begin());
      *least += params[i].numel();
    }
  }
  return owners;
}

ParameterShards::ParameterShards(Group group, const std::vector<std::vector<at::Tensor>>& params)
    : group_(std::move(group)), owners_(partition_parameters(params, group_.size())) {
  for (const auto& one : params) {
    params_.insert(params_.end(), one.begin(), one.end());
  }
}

std::vector<bool> ParameterShards::own() const {
  std::vector<bool> own;
  for (const int owner : owners_) {
    own.push_back(owner == group_.rank());
  }
  return own;
}

void ParameterShards::broadcast() const {
  const at::NoGradGuard no_grad;
  std::vector<Work> works;
  for (std::size_t i = 0; i < params_.size() && group_.size() > 1; ++i) {
    works.push_back(group_.broadcast(params_[i].detach(), owners_[i]));
  }
  for (auto& work : works) {
    work.wait();
  }
}

OptimizerState ParameterShards::consolidated(OptimizerState state, int to) const {
  if (to < 0 || to >= group_.size()) {
    throw UsageError("ZeroRedundancyOptimizer::consolidate_state_dict on rank " +
                     std::to_string(rank()) + ": the state is to go to rank " + std::to_string(to) +
                     ", expected 0 to " + std::to_string(group_.size() - 1));
  }
  const auto announcements = group_.all_gather_bytes(announce(state));
  const at::Device where = group_.object_device();  // Ranks that share a GPU send nothing there.
  if (group_.rank() != to) {
    for (const auto& [param, tensors] : state.state) {
      for (const auto& [name, tensor] : tensors) {
        group_.send(tensor.to(where).contiguous(), to).wait();
      }
    }
    return state;
  }
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == to) {
      continue;
    }
    for (const auto& one : parse(announcements[static_cast<std::size_t>(rank)])) {
      auto tensor = at::empty(
          one.sizes, at::TensorOptions(static_cast<at::ScalarType>(one.type)).device(where));
      group_.recv(tensor, rank).wait();
      const auto& param = params_.at(static_cast<std::size_t>(one.param));
      state.state[one.param][one.name] = tensor.to(one.on_cpu ? at::kCPU : param.device());
    }
  }
  return state;
}

void ParameterShards::fail_unconsolidated() const {
  const auto rank = std::to_string(group_.rank());
  throw UsageError("ZeroRedundancyOptimizer: state_dict() on rank " + rank + " of " +
                   std::to_string(group_.size()) +
                   ", which has the state of its own parameters alone: the state of all was not "
                   "consolidated on it since the last step; call consolidate_state_dict(" +
                   rank + ") on all ranks first");
}

}  // namespace lockstep::optim
