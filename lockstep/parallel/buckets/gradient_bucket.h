// Gradients that travel together: which of them, in which order, and when they are copied.
//
// Who writes the memory of a bucket: before reduce(), autograd (in place) and, under the reducer's
// lock, put(); from reduce() until its work is waited for, the backend, or the communication hook
// in its stead; between backwards, whoever has `.grad`.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/parallel/buckets/bucket_plan.h"
#include "lockstep/parallel/buckets/reduction.h"
#include "lockstep/parallel/in_place/bucket_memory.h"
#include "lockstep/parallel/module_state.h"

namespace lockstep::parallel {

class GradientBucket {
 public:
  // What becomes of `.grad` between backwards.
  enum class Mode {
    kViews,     // It is a view of the bucket: no second copy of the gradients exists.
    kSeparate,  // It is a tensor of its own, copied in and out.
    kStay,      // Nothing travels, because there is one rank: it is what autograd made.
  };

  // With kViews, gradients that are already defined move in. A sparse gradient has no place in the
  // bucket: the gradient itself is what travels.
  GradientBucket(const Bucket& plan, const std::vector<Parameter>& parameters, Mode mode,
                 const AllocateFlat& allocate, std::unique_ptr<Reduction> reduction);

  [[nodiscard]] const std::vector<std::size_t>& parameters() const { return parameters_; }
  [[nodiscard]] bool is_sparse() const { return sparse_; }
  // What is summed over the ranks. Undefined with kStay; for a sparse gradient, defined after
  // put().
  [[nodiscard]] const at::Tensor& contents() const {
    return sparse_ ? sparse_gradient_ : memory_.flat();
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  // Where the gradients lie, and who else holds them. Without places if nothing travels, or if the
  // gradient is sparse.
  [[nodiscard]] BucketMemory& memory() { return memory_; }
  [[nodiscard]] const BucketMemory& memory() const { return memory_; }

  // A step begins: no gradient is in its place yet.
  void begin();
  // Puts the i-th gradient in its place. An undefined gradient counts as zero. Returns how many
  // bytes were copied: none if the gradient was allocated there. Throws UsageError if its dtype or
  // layout differs.
  std::size_t put(std::size_t i);
  // Starts the reduction, when all gradients are put. On a GPU the gradients are copied only now,
  // all with one kernel.
  Reduction::WorkPointer reduce();
  // The same for zeros that are no gradients of this rank.
  Reduction::WorkPointer reduce(const at::Tensor& zeros) { return reduction_->start(zeros, {}); }
  // Infinite: this rank adds zeros, and with kStay its gradients become zeros.
  void set_divisor(double divisor);
  // The gradients that reduce() copied, which the current stream may still read.
  [[nodiscard]] std::vector<at::Tensor> take_copied() { return std::exchange(copied_, {}); }

  // Makes the sum the gradient of the i-th parameter. Throws UsageError if `.grad` was exchanged
  // since put().
  void write_back(std::size_t i);

 private:
  [[nodiscard]] at::Tensor& gradient(std::size_t i) const { return tensors_[i].mutable_grad(); }
  [[nodiscard]] const at::Tensor& place(std::size_t i) const { return memory_.places()[i]; }
  void require_alike(std::size_t i) const;
  void put_sparse(std::size_t i);
  void copy_postponed();

  std::vector<std::size_t> parameters_;
  std::vector<at::Tensor> tensors_;
  std::vector<std::string> names_;
  std::unique_ptr<Reduction> reduction_;
  BucketMemory memory_;
  at::Tensor sparse_gradient_;
  std::vector<std::size_t> postponed_;  // Put, but not yet copied.
  std::vector<at::Tensor> copied_;
  std::size_t bytes_ = 0;
  bool stays_ = false;  // Mode::kStay.
  bool sparse_ = false;
  bool counts_nothing_ = false;  // Its divisor is infinite.
};

}  // namespace lockstep::parallel
