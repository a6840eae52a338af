// A bucket's memory: one flat tensor, in it a place for each gradient, and who else holds it.
//
// Gradients can be allocated in their places (gradient_placement.h). So others may come to hold
// this memory: whoever keeps a gradient of an earlier step, or a tensor that was taken for a
// gradient by mistake. Their values must not change, so the bucket then moves to other memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/placement_allocator.h"

namespace lockstep::parallel {

// Allocates a flat tensor of this many elements in the memory that suits the transport best.
using AllocateFlat = std::function<at::Tensor(std::int64_t elements, at::TensorOptions options)>;

class BucketMemory {
 public:
  struct Options {
    AllocateFlat allocate;
    bool gives_views = false;    // `.grad` becomes the place itself.
    bool align_largest = false;  // LibTorch can allocate the largest gradient in its place then.
  };
  using Strides = std::vector<std::int64_t>;
  // Has no memory and no places.
  BucketMemory() = default;
  BucketMemory(std::vector<at::Tensor> parameters, std::vector<Strides> strides, Options options);
  // A copy would hold the memory, and be taken for somebody who kept a gradient.
  BucketMemory(const BucketMemory&) = delete;
  BucketMemory& operator=(const BucketMemory&) = delete;
  BucketMemory(BucketMemory&&) = default;
  BucketMemory& operator=(BucketMemory&&) = default;
  ~BucketMemory() = default;

  [[nodiscard]] const at::Tensor& flat() const { return flat_; }
  [[nodiscard]] const std::vector<at::Tensor>& places() const { return places_; }
  // False from the start, or after the memory was left to others too often.
  [[nodiscard]] bool gives_views() const { return gives_views_; }

  // A step begins: no gradient is in its place yet.
  void begin();
  // These three need a place. So does move_out(); the other functions find nothing to do without.
  void mark_put(std::size_t i) { put_[i] = true; }
  // Whether the i-th gradient is a view of its place.
  [[nodiscard]] bool is_in_place(std::size_t i) const;
  // Whether it has the memory of its place, whoever owns that. False for a gradient that requires
  // gradients.
  [[nodiscard]] bool was_made_in_place(std::size_t i) const;

  // The i-th gradient's place, for a tensor that may become that gradient. Nothing if a tensor
  // cannot be there, if the place is in use, if somebody still has a gradient of the last step, or
  // if the bucket moved in this step.
  [[nodiscard]] comm::MemorySource::Memory memory_for(std::size_t i) const;
  // Whether a tensor that is not the i-th gradient lies in its place.
  [[nodiscard]] bool is_used_by_another(std::size_t i) const;
  // autograd computed the i-th gradient as `made`. Whether somebody else has kept a gradient that
  // lies in its place: a hook of the user's, for which its values must not change.
  [[nodiscard]] bool is_kept_by_others(std::size_t i, const at::Tensor& made) const;

  // The backward of a step begins. If somebody kept a gradient of an earlier step, the bucket
  // leaves that memory as it is and moves to other memory, before this step writes anything. Each
  // kept gradient keeps the memory of a whole bucket; if that happens too often, `.grad` becomes a
  // separate tensor instead. Returns whether the bucket moved, and how many bytes it copied:
  // gradients that this backward will add to.
  struct Move {
    bool moved = false;
    std::size_t copied = 0;
  };
  Move leave_if_kept();
  // Leaves the memory to other tensors. Takes along the gradients that were put or will be added
  // to, and returns how many bytes they have.
  std::size_t move_out();

 private:
  [[nodiscard]] at::Tensor& gradient(std::size_t i) const { return parameters_[i].mutable_grad(); }
  [[nodiscard]] bool is_kept() const;
  void make_places(const AllocateFlat& allocate);
  std::size_t move();

  std::vector<at::Tensor> parameters_;
  std::vector<Strides> strides_;
  std::size_t bytes_ = 0;
  AllocateFlat allocate_;
  bool gives_views_ = false;
  bool align_largest_ = false;
  at::Tensor flat_;
  std::vector<at::Tensor> places_;
  std::size_t holders_ = 0;  // Our own tensors that hold the memory.
  std::vector<bool> put_;    // By place, in this step.
  bool moved_ = false;       // In this step.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> left_;  // What others kept, if they do.
};

}  // namespace lockstep::parallel
