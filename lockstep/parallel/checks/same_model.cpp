#include "lockstep/parallel/checks/same_model.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/rendezvous/store_post.h"

namespace lockstep::parallel {
namespace {

std::string who(const Group& group) {
  return "DistributedDataParallel on rank " + std::to_string(group.rank()) + " of " +
         std::to_string(group.size());
}

// Every rank's number of parameters.
std::vector<std::int64_t> gather_counts(const Group& group,
                                        const std::vector<Parameter>& parameters) {
  const auto options = at::TensorOptions(at::kLong).device(parameters.front().tensor.device());
  const auto own = at::full({1}, static_cast<std::int64_t>(parameters.size()), options);
  std::vector<at::Tensor> input{own};
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int rank = 0; rank < group.size(); ++rank) {
    outputs[0].push_back(at::empty_like(own));
  }
  group.process_group()->allgather(outputs, input)->wait();
  group.synchronize(own.device());
  std::vector<std::int64_t> counts;
  for (const auto& count : outputs[0]) {
    counts.push_back(count.item<std::int64_t>());
  }
  return counts;
}

// All sizes and strides, as Python's DDP broadcasts them.
at::Tensor shapes_of(const std::vector<Parameter>& parameters) {
  std::vector<std::int64_t> numbers;
  for (const auto& parameter : parameters) {
    const auto sizes = parameter.tensor.sizes();
    const auto strides = parameter.tensor.strides();
    numbers.insert(numbers.end(), sizes.begin(), sizes.end());
    numbers.insert(numbers.end(), strides.begin(), strides.end());
  }
  return at::tensor(numbers, at::kLong).to(parameters.front().tensor.device());
}

void compare_descriptions(const Group& group, const std::string& key) {
  const auto store = group.store();
  std::string first;
  int first_rank = -1;
  for (int rank = 0; rank < group.size(); ++rank) {
    // A rank that takes part left its description before the all_gather, which is over.
    if (!store->check({model_key(key, rank)})) {
      continue;
    }
    const auto bytes = store->get(model_key(key, rank));
    const std::string text(bytes.begin(), bytes.end());
    if (first_rank < 0) {
      first = text;
      first_rank = rank;
    } else if (const auto found = difference(first, text, first_rank, rank); !found.empty()) {
      throw UsageError(who(group) + ": the ranks have different models: " + found +
                       "; build the same model on all ranks, in the same order");
    }
  }
}

void compare_counts(const Group& group, const std::vector<std::int64_t>& counts) {
  for (std::size_t rank = 1; rank < counts.size(); ++rank) {
    if (counts[rank] != counts[0]) {
      throw UsageError(who(group) + ": rank 0 has " + std::to_string(counts[0]) +
                       " parameters that require a gradient, rank " + std::to_string(rank) +
                       " has " + std::to_string(counts[rank]) +
                       "; build the same model on all ranks");
    }
  }
}

void compare_shapes(const Group& group, const std::vector<Parameter>& parameters) {
  const auto own = shapes_of(parameters);
  const auto first = own.clone();
  std::vector<at::Tensor> tensors{first};
  group.process_group()->broadcast(tensors)->wait();
  group.synchronize(own.device());
  if (first.equal(own)) {
    return;
  }
  const auto theirs = first.cpu();
  const auto* numbers = theirs.const_data_ptr<std::int64_t>();
  for (const auto& parameter : parameters) {
    for (const auto mine : {parameter.tensor.sizes(), parameter.tensor.strides()}) {
      const at::IntArrayRef other(numbers, mine.size());
      if (mine != other) {
        throw UsageError(who(group) + ": parameter '" + parameter.name +
                         "' does not match rank 0's: here " + c10::str(mine) + ", there " +
                         c10::str(other) +
                         " (sizes or strides); build the same model on all ranks");
      }
      numbers += mine.size();
    }
  }
}

// " Float [2, 3]", with strides where they are not the usual ones.
std::string shape_of(const at::Tensor& tensor) {
  std::string text =
      std::string(" ") + c10::toString(tensor.scalar_type()) + " " + c10::str(tensor.sizes());
  return tensor.is_contiguous() ? text : text + " strides " + c10::str(tensor.strides());
}

}  // namespace

std::string model_key(const std::string& key, int rank) {
  return key + "/model/" + std::to_string(rank);
}

std::string description_of(const std::vector<Parameter>& parameters, const NamedTensors& buffers) {
  std::string text;
  for (const auto& parameter : parameters) {
    text += "parameter " + parameter.name + shape_of(parameter.tensor) +
            (parameter.sparse ? " sparse gradients\n" : "\n");
  }
  for (const auto& [name, tensor] : buffers) {
    text += "buffer " + name + shape_of(tensor) + "\n";
  }
  return text;
}

std::string difference(const std::string& first, const std::string& second, int first_rank,
                       int second_rank) {
  const auto left = split(first, '\n');
  const auto right = split(second, '\n');
  const auto entry = [](const std::vector<std::string>& lines, std::size_t i) {
    return i < lines.size() && !lines[i].empty() ? "'" + lines[i] + "'" : std::string("no more");
  };
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    if (entry(left, i) != entry(right, i)) {
      return "number " + std::to_string(i) + " is " + entry(left, i) + " on rank " +
             std::to_string(first_rank) + " and " + entry(right, i) + " on rank " +
             std::to_string(second_rank);
    }
  }
  return "";
}

void require_same_model(const Group& group, const std::vector<Parameter>& parameters,
                        const NamedTensors& buffers, const std::string& key) {
  if (group.is_distributed()) {
    comm::post(*group.store(), model_key(key, group.rank()), description_of(parameters, buffers));
  }
  comm::as_peer_error(who(group) + ", comparing models", [&] {
    const auto counts = gather_counts(group, parameters);
    if (group.is_distributed()) {
      compare_descriptions(group, key);
    }
    compare_counts(group, counts);
    compare_shapes(group, parameters);
  });
}

}  // namespace lockstep::parallel
