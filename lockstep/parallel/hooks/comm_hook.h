// What a communication hook gets and gives: a bucket in, a future out.
//
//   ddp.register_comm_hook([world](lockstep::GradBucket& bucket) {
//     const auto sum = bucket.buffer();
//     return lockstep::TensorFuture(world.all_reduce(sum), sum).then([world](at::Tensor value) {
//       return value.div_(world.size());
//     });
//   });
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/work.h"

namespace lockstep {

// A tensor that will be there. A handle: copies refer to the same one. What then() adds runs in the
// thread that waits, so DistributedDataParallel runs it at the end of backward, bucket after
// bucket: collectives in it come in the same order on all ranks.
class TensorFuture {
 public:
  explicit TensorFuture(const at::Tensor& ready) : TensorFuture([ready] { return ready; }) {}
  // `result` is there when the work is done.
  TensorFuture(Work work, const at::Tensor& result)
      : TensorFuture([work = std::move(work), result]() mutable {
          work.wait();
          return result;
        }) {}
  // Throws UsageError for an empty function.
  explicit TensorFuture(std::function<at::Tensor()> wait)
      : state_(std::make_shared<State>(
            State{.wait = std::move(wait), .value = std::nullopt, .error = nullptr})) {
    if (!state_->wait) {
      throw UsageError(
          "TensorFuture: the function that waits is empty, expected one that returns "
          "the tensor");
    }
  }

  // The future of what `next` makes of the tensor.
  [[nodiscard]] TensorFuture then(std::function<at::Tensor(at::Tensor)> next) const {
    return TensorFuture(
        [before = *this, next = std::move(next)]() mutable { return next(before.wait()); });
  }

  // Throws what the work or a function of then() throws. A second call returns the same tensor, or
  // throws the same.
  at::Tensor wait() {
    if (const auto wait = std::exchange(state_->wait, nullptr)) {
      try {
        state_->value = wait();
      } catch (...) {
        state_->error = std::current_exception();
      }
    }
    if (state_->error) {
      std::rethrow_exception(state_->error);
    }
    return *state_->value;
  }

 private:
  struct State {
    std::function<at::Tensor()> wait;
    std::optional<at::Tensor> value;
    std::exception_ptr error;
  };
  std::shared_ptr<State> state_;
};

// Gradients that travel together, as torch.distributed.GradBucket: this rank's, not divided yet.
class GradBucket {
 public:
  struct Position {
    std::size_t index = 0;  // In the order in which buckets are given to the hook.
    std::size_t count = 1;
  };
  // How each gradient lies in the buffer.
  using Strides = std::vector<std::vector<std::int64_t>>;
  // Without strides they are those that the parameters have now, as autograd chooses them.
  GradBucket(const Position& position, at::Tensor buffer, std::vector<at::Tensor> parameters,
             Strides strides = {})
      : position_(position),
        buffer_(std::move(buffer)),
        parameters_(std::move(parameters)),
        strides_(std::move(strides)) {}

  [[nodiscard]] std::size_t index() const { return position_.index; }
  // Whether it is the last bucket of the step.
  [[nodiscard]] bool is_last() const { return position_.index + 1 == position_.count; }

  // All gradients, flat.
  [[nodiscard]] const at::Tensor& buffer() const { return buffer_; }
  void set_buffer(const at::Tensor& buffer) { buffer_ = buffer; }

  // Views of the buffer with the shapes of the parameters, in their order. Their strides are those
  // that the parameters had when they were wrapped.
  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> views;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto& parameter = parameters_[i];
      const auto flat = buffer_.narrow(0, offset, parameter.numel());
      if (!strides_.empty()) {
        views.push_back(flat.as_strided(parameter.sizes(), strides_[i]));
      } else {
        views.push_back(parameter.is_non_overlapping_and_dense()
                            ? flat.as_strided(parameter.sizes(), parameter.strides())
                            : flat.view(parameter.sizes()));
      }
      offset += parameter.numel();
    }
    return views;
  }
  [[nodiscard]] const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  Position position_;
  at::Tensor buffer_;
  std::vector<at::Tensor> parameters_;
  Strides strides_;  // By parameter, or none.
};

// Called once for each bucket of a step, in the order of their indices, while backward goes on. Its
// result replaces the gradients; it has as many elements as the buffer, of any dtype. What the hook
// keeps must outlive the DistributedDataParallel.
using CommHook = std::function<TensorFuture(GradBucket& bucket)>;

}  // namespace lockstep
