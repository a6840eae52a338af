// What becomes of a bucket of gradients on all ranks: by default, their average.
//
// Dividing and summing are decided in one place, because a backend that multiplies while it sums
// saves a pass over the memory. A communication hook is another Reduction: bucket in, work out.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "lockstep/comm/group.h"

namespace lockstep::parallel {

// One for each bucket. In every step each gradient comes to its place in one of three ways, then
// start() is called.
class Reduction {
 public:
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  Reduction() = default;
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;
  virtual ~Reduction() = default;

  // The i-th gradient is copied there.
  virtual void copy_in(std::size_t i, const at::Tensor& place, const at::Tensor& gradient) = 0;
  // autograd computed it there, or it is zero.
  virtual void made_in_place(std::size_t i) = 0;
  // autograd added it to what was there.
  virtual void added_in_place(std::size_t i, const at::Tensor& place) = 0;
  // Copies many at once, on a GPU, for which made_in_place() was called.
  virtual void copy_all_in(const std::vector<at::Tensor>& places,
                           const std::vector<at::Tensor>& gradients) = 0;

  // Starts the reduction over all ranks. After the work's wait(), `flat` has the result. `places`
  // are the gradients' views of it.
  virtual WorkPointer start(const at::Tensor& flat, const std::vector<at::Tensor>& places) = 0;

  // This rank adds its gradients divided by this number, instead of that of the ranks; infinite:
  // it adds zeros, whatever they are.
  virtual void set_divisor(double divisor) = 0;

  // Whether gradients stay as they come until start(), so that autograd may compute them in place.
  [[nodiscard]] virtual bool leaves_gradients() const = 0;
};

// The average, with PyTorch's bits.
class Average : public Reduction {
 public:
  enum class Divide {
    kBefore,  // Each gradient when it comes to its place.
    kInSum,   // The sum multiplies what it reads.
  };
  using AllReduce = std::function<WorkPointer(const at::Tensor& flat, const c10d::ReduceOp& op)>;
  Average(int ranks, Divide divide, AllReduce all_reduce);
  // Over a group's ranks, in the sum where that gives the same bits.
  static std::unique_ptr<Average> over(const Group& group, const at::Tensor& like, bool sparse);
  // Whether a group's backend can multiply such values by a factor while it sums them, with the
  // same result as multiplying them before.
  static bool can_divide_in_sum(const Group& group, const at::Tensor& like);

  void copy_in(std::size_t i, const at::Tensor& place, const at::Tensor& gradient) override;
  void made_in_place(std::size_t i) override { mark(i, divide_ == Divide::kBefore); }
  void added_in_place(std::size_t i, const at::Tensor& place) override;
  void copy_all_in(const std::vector<at::Tensor>& places,
                   const std::vector<at::Tensor>& gradients) override;
  WorkPointer start(const at::Tensor& flat, const std::vector<at::Tensor>& places) override;
  void set_divisor(double divisor) override { divisor_ = divisor; }
  [[nodiscard]] bool leaves_gradients() const override { return divide_ == Divide::kInSum; }

 private:
  void mark(std::size_t i, bool divided);

  double divisor_;
  Divide divide_;
  AllReduce all_reduce_;
  std::vector<bool> divided_;  // By place, in this step.
};

}  // namespace lockstep::parallel
