// Gradients that travel together: one flat tensor, and in it a place for each of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "lockstep/parallel/bucket_plan.h"
#include "lockstep/parallel/module_state.h"

namespace lockstep::parallel {

// A flat tensor of so many elements, from wherever the transport likes it best.
using AllocateFlat = std::function<at::Tensor(std::int64_t elements, at::TensorOptions options)>;

class GradientBucket {
 public:
  // What becomes of `.grad` between backwards.
  enum class Mode {
    kViews,     // It is a view of the bucket: no second copy of the gradients exists.
    kSeparate,  // It is a tensor of its own, copied in and out.
    kStay,      // Nothing travels, because there is one rank: it is what autograd made.
  };

  // Gradients that are defined already move in, with kViews. A sparse gradient has no place: what
  // travels is the gradient itself.
  GradientBucket(const Bucket& plan, const std::vector<Parameter>& parameters, Mode mode,
                 const AllocateFlat& allocate);

  [[nodiscard]] const std::vector<std::size_t>& parameters() const { return parameters_; }
  [[nodiscard]] bool is_sparse() const { return sparse_; }
  // What is summed over the ranks; for a sparse one defined once put() was called, undefined with
  // kStay.
  [[nodiscard]] const at::Tensor& contents() const { return flat_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // Puts the i-th gradient in its place, divided by the number of ranks as PyTorch divides it. An
  // undefined gradient counts as zero. Throws UsageError if its dtype or layout is another.
  void put(std::size_t i, int ranks);

  // Makes the sum the gradient of the i-th parameter. Throws UsageError if `.grad` was exchanged
  // since put().
  void give(std::size_t i);

 private:
  [[nodiscard]] at::Tensor& gradient(std::size_t i) const;
  void put_sparse(std::size_t i, int ranks);

  std::vector<std::size_t> parameters_;
  std::vector<at::Tensor> tensors_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> places_;
  at::Tensor flat_;
  std::size_t bytes_ = 0;
  Mode mode_;
  bool sparse_ = false;
};

}  // namespace lockstep::parallel
