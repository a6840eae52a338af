#include "lockstep/comm/backends/support/queued_work.h"

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {

QueuedWork::QueuedWork(std::shared_ptr<WorkQueue> queue, WorkQueue::JobPointer job, int rank,
                       c10d::OpType type, std::vector<at::Tensor> outputs)
    : Work(rank, type),
      queue_(std::move(queue)),
      job_(std::move(job)),
      outputs_(std::move(outputs)) {}

bool QueuedWork::isCompleted() {
  if (job_->is_done()) {
    return true;
  }
  queue_->require_owner();
  return false;
}

bool QueuedWork::wait(std::chrono::milliseconds timeout) {
  if (timeout == kNoTimeout) {
    queue_->wait(*job_);
  } else if (!queue_->wait_until(*job_, Deadline::in(timeout))) {
    throw PeerError(c10d::opTypeToString(retrieveOpType()) + " on rank " + std::to_string(rank_) +
                        ": timed out: not done after " + to_text(timeout) +
                        "; it goes on, wait again or raise the timeout",
                    PeerError::Cause::kLate);
  }
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> QueuedWork::getFuture() {
  queue_->require_owner();
  const std::lock_guard lock(future_mutex_);
  if (!future_) {
    future_ = new_future();
    queue_->when_done(
        *job_, [future = future_, outputs = outputs_](const std::exception_ptr& error) {
          error ? future->setError(error) : future->markCompleted(at::IValue(outputs));
        });
  }
  return future_;
}

}  // namespace lockstep::comm
