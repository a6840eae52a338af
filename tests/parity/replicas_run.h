// A case of the parity tests with DataParallel: the batches of as many ranks as there are replicas,
// as one.
#pragma once

#include <ATen/core/grad_mode.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include <string>
#include <utility>
#include <vector>

#include "lockstep/parallel/data_parallel.h"
#include "tests/parity/table.h"

namespace lockstep::parity {

inline Result train_replicas(const Case& the_case, const torch::nn::Sequential& net,
                             const Tensors& data) {
  {
    const at::NoGradGuard no_grad;
    for (const auto& item : net->named_parameters()) {
      item.value().copy_(data.at(item.key()));
    }
  }
  const std::vector devices(static_cast<std::size_t>(the_case.replicas), the_case.device);
  DataParallel parallel(net, DataParallelOptions{.device_ids = devices});
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05)
                                                     .momentum(the_case.momentum)
                                                     .weight_decay(the_case.weight_decay));
  const auto batch = [&](const char* name, int step) {
    return data.at(name)[step].narrow(0, 0, the_case.replicas).flatten(0, 1);
  };
  Result result;
  for (int step = 0; step < the_case.steps; ++step) {
    optimizer.zero_grad();
    const auto loss =
        torch::nn::functional::cross_entropy(parallel(batch("x", step)), batch("y", step));
    loss.backward();
    optimizer.step();
    result.left["loss." + std::to_string(step) + ".0"] = loss.detach();
  }
  for (const auto& item : net->named_parameters()) {
    result.left[item.key()] = item.value();
    result.left[item.key() + ".grad"] = item.value().grad();
  }
  return result;
}

template <class Make>
auto training_replicas(Make make) {
  return [make](const Case& the_case, const Group& /*group*/, const Tensors& data) {
    return train_replicas(the_case, make(), data);
  };
}

}  // namespace lockstep::parity
