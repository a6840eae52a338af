// A module's parameters and buffers by name, as Python's state_dict() has them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep {

template <class Module>
class DistributedDataParallel;

// In Python's order: a module's own parameters, its own buffers, then its children's.
using StateDict = std::vector<std::pair<std::string, at::Tensor>>;

// The tensors are the module's own, without history. A tensor that two modules share is there under
// both names, as in Python.
StateDict state_dict(const torch::nn::Module& module);

// With "module." before each name, as in Python.
template <class Module>
StateDict state_dict(const DistributedDataParallel<Module>& ddp) {
  StateDict state = state_dict(*ddp.module());
  for (auto& item : state) {
    item.first.insert(0, "module.");
  }
  return state;
}

struct LoadStateOptions {
  bool strict = true;  // False: names that are missing or unexpected are no error.
};
struct LoadedState {
  std::vector<std::string> missing_keys;
  std::vector<std::string> unexpected_keys;
};
// Copies into the module's tensors. All names may start with "module.", as those of a Python model
// under DataParallel or DistributedDataParallel do, on either side. A missing num_batches_tracked
// stays as it is, as in Python. Throws UsageError that lists the names and shapes that do not fit,
// and the tensors without contents, and changes nothing.
LoadedState load_state_dict(torch::nn::Module& module, const StateDict& state,
                            const LoadStateOptions& options = {});

}  // namespace lockstep
