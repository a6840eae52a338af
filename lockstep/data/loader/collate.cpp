#include "lockstep/data/loader/collate.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <cstring>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using Part = at::Tensor Sample::*;

std::string shape_or_none(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return "none";
  }
  std::string text = "[";
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.size(i));
  }
  return text + "]";
}

void require_same_shape(const std::vector<Sample>& samples, Part part, const char* name) {
  const at::Tensor& first = samples.front().*part;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const at::Tensor& other = samples[i].*part;
    if (first.defined() != other.defined() || (first.defined() && first.sizes() != other.sizes())) {
      throw UsageError("default_collate: the " + std::string(name) +
                       " of sample 0 of the batch is " + shape_or_none(first) + " and of sample " +
                       std::to_string(i) + " " + shape_or_none(other) +
                       ", expected one shape; resize the samples, or give a collate_fn");
    }
  }
}

// Tensors that are copied byte by byte: not with at::stack, which may start threads of its own.
bool are_plain(const std::vector<Sample>& samples, Part part) {
  const at::Tensor& first = samples.front().*part;
  for (const Sample& sample : samples) {
    const at::Tensor& tensor = sample.*part;
    if (!tensor.is_cpu() || tensor.layout() != at::kStrided || tensor.requires_grad() ||
        !tensor.is_contiguous() || tensor.dtype() != first.dtype()) {
      return false;
    }
  }
  return true;
}

at::Tensor stacked(const std::vector<Sample>& samples, Part part, const char* name) {
  require_same_shape(samples, part, name);
  const at::Tensor& first = samples.front().*part;
  if (!first.defined()) {
    return {};
  }
  if (!are_plain(samples, part)) {
    std::vector<at::Tensor> tensors;
    for (const Sample& sample : samples) {
      tensors.push_back(sample.*part);
    }
    return at::stack(tensors);
  }
  std::vector<std::int64_t> sizes{static_cast<std::int64_t>(samples.size())};
  sizes.insert(sizes.end(), first.sizes().begin(), first.sizes().end());
  at::Tensor batch = at::empty(sizes, first.options());
  auto* to = static_cast<std::byte*>(batch.mutable_data_ptr());
  const std::size_t bytes = first.nbytes();
  for (const Sample& sample : samples) {
    if (bytes > 0) {
      std::memcpy(to, (sample.*part).const_data_ptr(), bytes);
    }
    to += bytes;
  }
  return batch;
}

}  // namespace

Sample default_collate(const std::vector<Sample>& samples) {
  if (samples.empty()) {
    throw UsageError("default_collate: there are no samples, expected at least one");
  }
  return {stacked(samples, &Sample::data, "data"), stacked(samples, &Sample::target, "target")};
}

}  // namespace lockstep::data
