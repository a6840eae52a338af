// Gradients that travel together: one flat tensor, and in it a place for each of them.
//
// Who writes it: before reduce(), autograd (in place) and, under the reducer's lock, put(); from
// reduce() until its work is waited for, the backend, or the communication hook in its stead;
// between backwards, whoever has `.grad`.
#pragma once

#include <ATen/core/Tensor.h>

#include <c10/core/StorageImpl.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/comm/placement_allocator.h"
#include "lockstep/parallel/buckets/bucket_plan.h"
#include "lockstep/parallel/buckets/reduction.h"
#include "lockstep/parallel/module_state.h"

namespace lockstep::parallel {

// Allocates a flat tensor of this many elements in the memory that suits the transport best.
using AllocateFlat = std::function<at::Tensor(std::int64_t elements, at::TensorOptions options)>;

inline constexpr std::size_t kTensorAlignment = 64;  // LibTorch aligns all tensors so.

// gradient_bucket.cpp copies gradients in and out; bucket_memory.cpp keeps track of who holds the
// memory.
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
                 AllocateFlat allocate, std::unique_ptr<Reduction> reduction);

  [[nodiscard]] const std::vector<std::size_t>& parameters() const { return parameters_; }
  [[nodiscard]] bool is_sparse() const { return sparse_; }
  // What is summed over the ranks. Undefined with kStay; for a sparse gradient, defined after
  // put().
  [[nodiscard]] const at::Tensor& contents() const { return flat_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // A step begins: no gradient is in its place yet.
  void begin();
  // The backward of a step begins. If somebody kept a gradient of an earlier step, the bucket
  // leaves that memory as it is and moves to other memory, before this step writes anything. Each
  // kept gradient keeps the memory of a whole bucket; if that happens too often, `.grad` becomes a
  // separate tensor instead. Returns whether the bucket moved, and how many bytes it copied:
  // gradients that this backward will add to.
  struct Move {
    bool moved = false;
    std::size_t copied = 0;
  };
  Move leave_kept_memory();
  // The i-th gradient's place, for a tensor that may become that gradient. Nothing if a tensor
  // cannot be there, if the place is in use, if somebody still has a gradient of the last step, or
  // if this bucket moved in this step.
  [[nodiscard]] comm::MemorySource::Memory memory_for(std::size_t i) const;
  // Whether a tensor that is not the i-th gradient lies in its place.
  [[nodiscard]] bool is_used_by_another(std::size_t i) const;
  // autograd computed the i-th gradient as `made`. Whether somebody else has kept a gradient that
  // lies in its place: a hook of the user's, for which its values must not change.
  [[nodiscard]] bool is_kept_by_others(std::size_t i, const at::Tensor& made) const;
  // Leaves the memory to such tensors. Takes along the gradients that were put or will be added to,
  // and returns how many bytes they have.
  std::size_t move_out();

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
  [[nodiscard]] at::Tensor& gradient(std::size_t i) const;
  // Whether the gradient is the i-th place itself, or was allocated in its memory.
  [[nodiscard]] bool is_in_place(std::size_t i) const;
  [[nodiscard]] bool was_made_in_place(std::size_t i) const;
  [[nodiscard]] bool is_kept() const;
  void make_places(const AllocateFlat& allocate);
  std::size_t move();
  void require_alike(std::size_t i) const;
  void put_sparse(std::size_t i);
  void copy_postponed();

  std::vector<std::size_t> parameters_;
  std::vector<at::Tensor> tensors_;
  std::vector<std::vector<std::int64_t>> strides_;  // By place.
  std::vector<std::string> names_;
  std::vector<at::Tensor> places_;
  std::vector<bool> put_;               // By place, in this step.
  std::vector<std::size_t> postponed_;  // Put, but not yet copied.
  std::vector<at::Tensor> copied_;
  bool moved_ = false;       // In this step.
  std::size_t holders_ = 0;  // Our own tensors that hold the memory.
  at::Tensor flat_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> left_;  // What others kept, if they do.
  AllocateFlat allocate_;
  std::unique_ptr<Reduction> reduction_;
  std::size_t bytes_ = 0;
  Mode mode_;
  bool sparse_ = false;
  bool counts_nothing_ = false;  // Its divisor is infinite.
};

}  // namespace lockstep::parallel
