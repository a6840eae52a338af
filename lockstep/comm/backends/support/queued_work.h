// A job of a work queue as a c10d work.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "lockstep/base/work_queue.h"

namespace lockstep::comm {

// wait() runs the job in the calling thread. A future is completed by the thread that runs the job:
// the queue's, or one in wait(); by the caller of getFuture() if the job is done.
// In a fork of the process that started it, throws UsageError, unless the job was done by then.
class QueuedWork : public c10d::Work {
 public:
  // The queue ends with the last of its works. The pointer may point into what they share.
  QueuedWork(std::shared_ptr<WorkQueue> queue, WorkQueue::JobPointer job, int rank,
             c10d::OpType type, std::vector<at::Tensor> outputs);

  bool isCompleted() override;
  bool isSuccess() const override { return job_->is_done() && !job_->error(); }
  std::exception_ptr exception() const override { return job_->error(); }
  // With a timeout other than kNoTimeout, leaves the job to the queue's thread. Throws PeerError
  // when that time is over; the job goes on.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override {}
  std::vector<at::Tensor> result() override { return outputs_; }
  // Milliseconds that it ran, waiting for its peers included; 0 before it is done.
  float getDuration() const override { return job_->duration().count(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::shared_ptr<WorkQueue> queue_;
  WorkQueue::JobPointer job_;
  std::vector<at::Tensor> outputs_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace lockstep::comm
