#include "lockstep/parallel/buckets/sync_bucket_plan.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

std::vector<int> from_rank_0(const Group& group, const std::vector<int>& own, at::Device device) {
  std::vector<at::Tensor> tensors{at::tensor(own, at::kInt).to(device)};
  group.process_group()->broadcast(tensors)->wait();
  group.synchronize(device);
  const auto received = tensors.front().cpu();
  const auto* data = received.const_data_ptr<int>();
  return {data, data + received.numel()};
}

[[noreturn]] void reject(const Group& group, const std::string& what) {
  throw PeerError("DistributedDataParallel on rank " + std::to_string(group.rank()) + " of " +
                  std::to_string(group.size()) + ": rank 0's plan of buckets " + what +
                  "; the ranks run different programs");
}

}  // namespace

std::vector<Bucket> sync_bucket_plan(const Group& group, const std::vector<Bucket>& own,
                                     at::Device device) {
  std::vector<int> parameters;
  std::vector<int> sizes;
  for (const auto& bucket : own) {
    for (const std::size_t parameter : bucket.parameters) {
      parameters.push_back(static_cast<int>(parameter));
    }
    sizes.push_back(static_cast<int>(bucket.parameters.size()));
  }
  const std::size_t total = parameters.size();
  parameters.push_back(static_cast<int>(own.size()));
  parameters = from_rank_0(group, parameters, device);
  const int buckets = parameters.back();
  parameters.pop_back();
  if (buckets < 1 || static_cast<std::size_t>(buckets) > total) {
    reject(group, "has " + std::to_string(buckets) + " buckets for " + std::to_string(total) +
                      " parameters");
  }
  sizes.resize(static_cast<std::size_t>(buckets), 1);
  sizes = from_rank_0(group, sizes, device);

  std::vector<bool> seen(total, false);
  std::vector<Bucket> plan;
  auto next = parameters.begin();
  for (const int size : sizes) {
    if (size < 1 || size > parameters.end() - next) {
      reject(group, "has a bucket of " + std::to_string(size) + " parameters");
    }
    Bucket bucket;
    for (const auto end = next + size; next != end; ++next) {
      const auto parameter = static_cast<std::size_t>(*next);
      if (parameter >= total || seen[parameter]) {
        reject(group, "names parameter " + std::to_string(*next) + " twice or there is none");
      }
      seen[parameter] = true;
      bucket.parameters.push_back(parameter);
    }
    plan.push_back(std::move(bucket));
  }
  if (next != parameters.end()) {
    reject(group, "leaves parameters out");
  }
  return plan;
}

}  // namespace lockstep::parallel
