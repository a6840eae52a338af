// Gradients that travel together: one flat tensor, and in it a place for each of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <c10/core/StorageImpl.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/comm/lent_memory.h"
#include "lockstep/parallel/bucket_plan.h"
#include "lockstep/parallel/module_state.h"

namespace lockstep::parallel {

// A flat tensor of so many elements, from wherever the transport likes it best.
using AllocateFlat = std::function<at::Tensor(std::int64_t elements, at::TensorOptions options)>;

inline constexpr std::size_t kTensorAlignment = 64;  // Of every tensor that LibTorch makes.

// How it puts and gives gradients is in gradient_bucket.cpp; who has its memory in
// bucket_memory.cpp.
class GradientBucket {
 public:
  // What becomes of `.grad` between backwards.
  enum class Mode {
    kViews,     // It is a view of the bucket: no second copy of the gradients exists.
    kSeparate,  // It is a tensor of its own, copied in and out.
    kStay,      // Nothing travels, because there is one rank: it is what autograd made.
  };

  // Who divides the gradients by the number of ranks.
  enum class Division {
    kBefore,  // put() does.
    kInSum,   // The sum multiplies what it reads, which saves a pass over the memory.
  };

  // Gradients that are defined already move in, with kViews. A sparse gradient has no place: what
  // travels is the gradient itself.
  GradientBucket(const Bucket& plan, const std::vector<Parameter>& parameters, Mode mode,
                 AllocateFlat allocate, Division division = Division::kBefore);

  [[nodiscard]] const std::vector<std::size_t>& parameters() const { return parameters_; }
  [[nodiscard]] bool is_sparse() const { return sparse_; }
  // What is summed over the ranks; for a sparse one defined once put() was called, undefined with
  // kStay.
  [[nodiscard]] const at::Tensor& contents() const { return flat_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // A step begins: nothing is put.
  void begin();
  // Its backward begins. Memory that somebody still holds, who kept a gradient of an earlier step,
  // is left as it is and the bucket moves to other memory, before anything of this step is written.
  // Each of them keeps the memory of a bucket: where that happens too often, `.grad` becomes a
  // tensor of its own instead. Returns whether it moved, and how many bytes it copied: gradients
  // that are there to be added to.
  struct Move {
    bool moved = false;
    std::size_t copied = 0;
  };
  Move leave_kept_memory();
  // The i-th gradient's place, for a tensor that may become that gradient. Nothing if tensors could
  // not lie there, if the place is in use, if somebody still has a gradient of the last step, or if
  // this bucket moved in this step.
  [[nodiscard]] comm::Lender::Loan lend(std::size_t i) const;
  // Whether a tensor that is not the i-th gradient lies in its place.
  [[nodiscard]] bool is_lent_elsewhere(std::size_t i) const;
  // Whether somebody besides autograd, which computed the i-th gradient as `made`, has kept a
  // gradient that lies in its place: a hook of the user's, for which it is to stay what it is.
  [[nodiscard]] bool is_kept_by_others(std::size_t i, const at::Tensor& made) const;
  // Leaves the memory to such tensors, and takes along what was put or is there to be added to;
  // returns how many bytes that are.
  std::size_t move_out();

  // Puts the i-th gradient in its place, divided by the number of ranks as PyTorch divides it, now
  // or in the sum. An undefined gradient counts as zero. Returns how many bytes it copied: none of
  // a gradient that was made there. Throws UsageError if its dtype or layout is another.
  std::size_t put(std::size_t i, int ranks);
  // When all are put: what the sum is to multiply this rank's contents by.
  // Nothing if they are divided. On a GPU they are copied only now, all with one kernel.
  [[nodiscard]] std::optional<double> factor(int ranks);
  // The gradients that were copied like that, which the current stream may still read.
  [[nodiscard]] std::vector<at::Tensor> take_copied() { return std::exchange(copied_, {}); }

  // Makes the sum the gradient of the i-th parameter. Throws UsageError if `.grad` was exchanged
  // since put().
  void give(std::size_t i);

 private:
  [[nodiscard]] at::Tensor& gradient(std::size_t i) const;
  // Whether the gradient is the i-th place itself, or was lent its memory.
  [[nodiscard]] bool is_in_place(std::size_t i) const;
  [[nodiscard]] bool was_made_in_place(std::size_t i) const;
  [[nodiscard]] bool is_kept() const;
  void make_places(const AllocateFlat& allocate);
  std::size_t move();
  void require_alike(std::size_t i) const;
  void put_sparse(std::size_t i, int ranks);
  void copy_postponed(int ranks);

  std::vector<std::size_t> parameters_;
  std::vector<at::Tensor> tensors_;
  std::vector<std::vector<std::int64_t>> strides_;  // Of the places.
  std::vector<std::string> names_;
  std::vector<at::Tensor> places_;
  std::vector<bool> put_;               // By place, in this step.
  std::vector<bool> divided_;           // The same.
  std::vector<std::size_t> postponed_;  // Put, but not yet copied.
  std::vector<at::Tensor> copied_;
  bool moved_ = false;       // In this step.
  std::size_t holders_ = 0;  // Of the memory: the tensors in here.
  at::Tensor flat_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> left_;  // What others kept, if they do.
  AllocateFlat allocate_;
  Division division_;
  std::size_t bytes_ = 0;
  Mode mode_;
  bool sparse_ = false;
};

}  // namespace lockstep::parallel
