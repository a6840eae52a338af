// A user's communication hook as what becomes of a bucket.
#pragma once

#include "lockstep/parallel/buckets/reduction.h"
#include "lockstep/parallel/hooks/comm_hook.h"

namespace lockstep::parallel {

// The hook gets gradients as autograd made them. Work::wait() throws UsageError if the hook's
// result is no tensor of as many elements as the bucket. What the hook itself throws comes out as
// HookError, here and in start().
class HookReduction : public Reduction {
 public:
  HookReduction(CommHook hook, const GradBucket::Position& position,
                std::vector<at::Tensor> parameters, GradBucket::Strides strides = {})
      : hook_(std::move(hook)),
        position_(position),
        parameters_(std::move(parameters)),
        strides_(std::move(strides)) {}

  void copy_in(std::size_t i, const at::Tensor& place, const at::Tensor& gradient) override;
  void made_in_place(std::size_t /*i*/) override {}
  void added_in_place(std::size_t /*i*/, const at::Tensor& /*place*/) override {}
  void copy_all_in(const std::vector<at::Tensor>& places,
                   const std::vector<at::Tensor>& gradients) override;
  WorkPointer start(const at::Tensor& flat, const std::vector<at::Tensor>& places) override;
  void set_divisor(double /*divisor*/) override {}  // The hook divides.
  [[nodiscard]] bool leaves_gradients() const override { return true; }

 private:
  CommHook hook_;
  GradBucket::Position position_;
  std::vector<at::Tensor> parameters_;
  GradBucket::Strides strides_;
};

}  // namespace lockstep::parallel
