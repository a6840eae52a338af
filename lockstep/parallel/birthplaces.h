// Has gradients made in their buckets, where they would be copied to.
//
// autograd makes every gradient anew in each backward, and does it the same way each time: what the
// backward before did tells which of the tensors that are made now will be which gradient. It is a
// guess. Where it is wrong, some other tensor lies in the bucket for a while; the caller sees that
// by is_lent() and must leave that memory alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <set>
#include <vector>

#include "lockstep/parallel/lent_memory.h"

namespace lockstep::parallel {

class Birthplaces final : public Lender {
 public:
  // `bytes` of each gradient, 0 where it cannot be made elsewhere. `place` gives the memory in
  // which a parameter's gradient is wanted, or nothing if it cannot be used now.
  Birthplaces(std::vector<std::size_t> bytes, std::function<Loan(std::size_t parameter)> place);

  // A backward pass of this thread begins, and ends; an end without a beginning is harmless. With
  // create_graph gradients belong to the graph, and nothing is lent.
  static void begin(const std::shared_ptr<Birthplaces>& places);
  void end();
  // A parameter's gradient is there; it may be undefined.
  void born(std::size_t parameter, const at::Tensor& gradient);
  // No more guesses for this one.
  void avoid(std::size_t parameter) { avoided_[parameter] = true; }

  Loan lend(std::size_t bytes) override;
  void made(const void* data, std::size_t bytes) override;

 private:
  struct Birth {
    std::size_t parameter;
    std::size_t nth;  // Of the tensors of its size that were made since the birth before.
  };
  struct Made {
    const void* data;
    std::size_t bytes;
  };

  std::vector<std::size_t> bytes_;
  std::function<Loan(std::size_t)> place_;
  std::set<std::size_t> sizes_;  // Other tensors are none of our business.
  std::vector<bool> avoided_;

  bool open_ = false;
  std::vector<Birth> expected_;
  std::size_t next_ = 0;
  std::vector<Birth> seen_;
  std::vector<Made> made_;  // Since the last birth.
};

}  // namespace lockstep::parallel
