#include "lockstep/comm/backends/mpi/work.h"

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {

bool MpiWork::isCompleted() {
  if (operation_->is_done()) {
    return true;
  }
  engine_.require_owner(operation_->call.what);
  return false;
}

bool MpiWork::wait(std::chrono::milliseconds timeout) {
  const MpiCall& call = operation_->call;
  const Deadline until = timeout == kNoTimeout ? call.deadline : Deadline::in(timeout);
  if (!engine_.wait(*operation_, until)) {
    if (timeout != kNoTimeout && !call.is_message) {
      throw PeerError(call.what + ": timed out: not done after " + to_text(timeout) +
                          "; it goes on, wait again or raise the timeout",
                      PeerError::Cause::kLate);
    }
    engine_.give_up(operation_, late(until));
  }
  if (const auto error = operation_->error()) {
    std::rethrow_exception(error);
  }
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> MpiWork::getFuture() {
  engine_.require_owner(operation_->call.what);
  const std::lock_guard lock(future_mutex_);
  if (!future_) {
    future_ = new_future();
    operation_->when_done([future = future_, outputs = outputs_](const std::exception_ptr& error) {
      error ? future->setError(error) : future->markCompleted(at::IValue(outputs));
    });
  }
  return future_;
}

}  // namespace lockstep::comm
