// Collectives on raw bytes. All ranks of a team call the same ones in the same order; each returns
// when this rank's part is done and its buffers may be used again.
//
// All throw PeerError (see Team). After that the contents of the output buffers are undefined.
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/shm/peers/team.h"
#include "lockstep/shm/reduce/reduction.h"

namespace lockstep::shm {

struct Input {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};
struct Output {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

struct Tensor {
  std::byte* data = nullptr;
  std::size_t count = 0;  // Elements.
};

// Every element is folded in rank order, wherever it is in the tensor, so the bits are the same on
// every rank and in every run. Tensors that lie in the arena on all ranks are not copied.
struct Fold {
  Reduction reduction;
  double factor = 1;  // This rank's, for kPremulSum. In all_reduce and reduce, kSum is the same as
                      // kPremulSum with factor 1, and ranks may mix the two.
};
void all_reduce(Team& team, const Tensor& tensor, const Fold& fold, Deadline deadline);
// Only the root's tensor changes.
void reduce(Team& team, const Tensor& tensor, const Fold& fold, int root, Deadline deadline);
// inputs[i] is this rank's share of what rank i gets; counts may differ between them.
void reduce_scatter(Team& team, std::byte* output, const std::vector<Tensor>& inputs,
                    const Fold& fold, Deadline deadline);

// dtype is only compared between the ranks.
void broadcast(Team& team, const Tensor& tensor, DType dtype, int root, Deadline deadline);
// outputs[i] has as many bytes as rank i's input.
void all_gather(Team& team, const std::vector<Output>& outputs, const Input& input, DType dtype,
                Deadline deadline);
// Only the root gives outputs, or inputs.
void gather(Team& team, const std::vector<Output>& outputs, const Input& input, DType dtype,
            int root, Deadline deadline);
void scatter(Team& team, const Output& output, const std::vector<Input>& inputs, DType dtype,
             int root, Deadline deadline);
// inputs[i] goes to rank i, outputs[i] comes from it.
void all_to_all(Team& team, const std::vector<Output>& outputs, const std::vector<Input>& inputs,
                DType dtype, Deadline deadline);

void barrier(Team& team, Deadline deadline);

}  // namespace lockstep::shm
