// Checks and splits the arguments of a c10d backend's calls, the same way in all of our backends.
//
// Every error is a UsageError that begins with `what`: the operation and the rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::comm {

// c10d passes lists, one entry for each device of a process; a rank of ours has one device.
template <class List>
auto& only(List& list, const std::string& what) {
  if (list.size() != 1) {
    throw UsageError(what + ": there are " + std::to_string(list.size()) +
                     " tensors, expected one; a rank has one tensor per collective");
  }
  return list[0];
}

// `role` is the rank's role in the call: root, source, destination.
void require_rank(int64_t rank, int ranks, const char* role, const std::string& what);

// One output for each of `inputs`, which are tensors or lists of them.
void require_as_many(std::size_t outputs, std::size_t inputs, const char* of_what,
                     const std::string& what);

// A dense tensor, on the CPU or a GPU.
void require_dense(const at::Tensor& tensor, const std::string& what);
void require_dense_cpu(const at::Tensor& tensor, const std::string& what);

// The operation is defined for the tensor's dtype, and a PREMUL_SUM has a factor.
void require_reducible(const c10d::ReduceOp& op, const at::Tensor& tensor, const std::string& what);

// What a call writes and reads on this rank.
struct Access {
  std::vector<at::Tensor> writes;
  std::vector<at::Tensor> reads;

  void read(const at::Tensor& input) { reads.push_back(input); }
  // An input that may be `own` itself: the output that gets the same elements.
  void read(const at::Tensor& input, const at::Tensor& own);
  // One input per rank, of which this rank's may be `own`, as in a reduce_scatter in place.
  void read(const std::vector<at::Tensor>& inputs, int rank, const at::Tensor& own);
  // An all_gather into one tensor, whose input may be this rank's part of it.
  void gather(const at::Tensor& output, const at::Tensor& input, int rank);
};

// Every element that is written must have its own place: no expanded tensor, no two outputs that
// share memory, no input where an output is written. What is only read may be expanded. To be
// called before the group is told of the call, so that a refused call costs the group nothing.
void require_no_overlap(const Access& access, const std::string& what);
// The same for one tensor that is written.
void require_separate_elements(const at::Tensor& tensor, const std::string& what);

// One dense tensor per rank, all of `like`'s dtype and device.
void require_one_per_rank(const std::vector<at::Tensor>& tensors, int ranks, const at::Tensor& like,
                          const std::string& what);

// A tensor's elements cut into one part of equal size per rank.
std::vector<at::Tensor> parts_of(const at::Tensor& tensor, int ranks, const std::string& what);

// For all_to_all: the parts of a tensor along its first dimension, of equal size if none is given.
std::vector<at::Tensor> split_of(const at::Tensor& tensor, const std::vector<int64_t>& sizes,
                                 int ranks, const std::string& what);

}  // namespace lockstep::comm
