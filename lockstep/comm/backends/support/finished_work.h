// A c10d work that was done when it was started.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {

class FinishedWork : public c10d::Work {
 public:
  explicit FinishedWork(std::vector<at::Tensor> result = {}) : result_(std::move(result)) {
    finish();
  }
  std::vector<at::Tensor> result() override { return result_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = new_future();
    future->markCompleted(at::IValue(result_));
    return future;
  }

 private:
  std::vector<at::Tensor> result_;
};

}  // namespace lockstep::comm
