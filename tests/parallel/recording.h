// A reducer in a group of one rank that writes down what it is asked.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/comm/backends/local/backend.h"
#include "lockstep/parallel/reducer.h"
#include "tests/comm/ranks.h"

namespace lockstep::parallel::recording {

inline std::vector<std::string>& events() {
  static std::vector<std::string> list;
  return list;
}

// Writes down when an all-reduce is started.
class RecordingBackend : public comm::LocalBackend {
 public:
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    events().push_back("sum " + std::to_string(tensors[0].numel()));
    return LocalBackend::allreduce(tensors, options);
  }
};

inline std::vector<Parameter> parameters_of_sizes(const std::vector<std::int64_t>& sizes) {
  std::vector<Parameter> parameters;
  for (const auto size : sizes) {
    parameters.push_back({.name = "p" + std::to_string(parameters.size()),
                          .owner = "Net",
                          .tensor = at::ones({size}).requires_grad_()});
  }
  return parameters;
}

// A reducer in a process of its own, as the only rank of a group that writes down what it is asked.
inline void with_recorder(const std::function<void(Group&, StepErrors&)>& body) {
  EXPECT_NO_THROW(spawn(1, [&](int) {
    auto registry = BackendRegistry::built_in();
    registry.add("recording", {c10::kCPU},
                 [](const BackendRequest&) { return c10::make_intrusive<RecordingBackend>(); });
    Group world = init_process_group({.backend = "recording", .registry = registry});
    StepErrors guard(world, "key");
    body(world, guard);
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed, see above");
    }
  }));
}

inline const std::vector<std::size_t> kOneEach{1};  // Every gradient fills a bucket.

inline at::Tensor chain(const std::vector<Parameter>& parameters) {
  auto value = at::ones({1});
  for (const auto& parameter : parameters) {
    value = value * parameter.tensor.sum();
  }
  return value.sum();
}

}  // namespace lockstep::parallel::recording
