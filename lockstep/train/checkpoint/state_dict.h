// A module's parameters and buffers by name, as Python's state_dict() has them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "lockstep/parallel/module_state.h"

namespace torch::nn {
class Module;
}

namespace lockstep {

namespace optim {
class ModelEma;
}
template <class Module>
class DistributedDataParallel;

// Names and tensors, in Python's order.
using StateDict = parallel::NamedTensors;

using parallel::state_dict;

// With "module." before each name, as in Python.
template <class Module>
StateDict state_dict(const DistributedDataParallel<Module>& ddp) {
  return ddp.state_dict();
}

// The averages, as timm's `state_dict_ema` has them.
StateDict state_dict(const optim::ModelEma& ema);

// The state with the names of a model whose own state is `own`, where they differ in the "module."
// of DistributedDataParallel, the "_orig_mod." of torch.compile() or AveragedModel's n_averaged.
// load_state_dict() does it itself.
StateDict named_as(const StateDict& own, const StateDict& state);

struct LoadStateOptions {
  bool strict = true;  // False: names that are missing or unexpected are no error.
  // A layer, such as "fc", that may have another shape, because the state is of another number of
  // classes: it stays as it is then.
  std::string head = {};
};
struct LoadedState {
  std::vector<std::string> missing_keys;
  std::vector<std::string> unexpected_keys;
  std::vector<std::string> kept_keys;  // Keys of the head, where it has another shape.
};
// Copies into the module's tensors. All names may start with "module.", as those of a Python model
// under DataParallel or DistributedDataParallel do, on either side; AveragedModel's n_averaged
// beside them is left out, as is the "_orig_mod." of torch.compile(). A missing num_batches_tracked
// stays as it is, as in Python. Throws UsageError that lists the names and shapes that do not fit,
// and the tensors without contents, and changes nothing.
LoadedState load_state_dict(torch::nn::Module& module, const StateDict& state,
                            const LoadStateOptions& options = {});
LoadedState load_state_dict(optim::ModelEma& ema, const StateDict& state,
                            const LoadStateOptions& options = {});
template <class Module>
LoadedState load_state_dict(const DistributedDataParallel<Module>& ddp, const StateDict& state,
                            const LoadStateOptions& options = {}) {
  return load_state_dict(*ddp.module(), state, options);
}

}  // namespace lockstep
