// The states of the random generators, so that a run that goes on draws what it would have drawn.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

class Group;

// The states of the default generators, one for each rank.
struct RngState {
  std::vector<at::Tensor> cpu;   // What Python's torch.set_rng_state() takes.
  std::vector<at::Tensor> cuda;  // torch.cuda.set_rng_state(), of the ranks' GPUs; empty without.
};

// The states of this process alone.
RngState rng_state(at::Device device = at::kCPU);
// The states of all ranks and their devices; a collective.
RngState rng_state(const Group& group);

struct RngOwner {
  int rank = 0;
  at::Device device = at::kCPU;
};
// Sets this process's generators to those of its rank. False, and nothing changes, if there is none
// for it or for its GPU: more ranks go on than saved, or other ones. Throws IoError if it is no
// state of a generator.
bool set_rng_state(const RngState& state, const RngOwner& owner = {});

}  // namespace lockstep
