// Collectives and messages of the shared-memory backend as c10d works.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "lockstep/comm/shm_tensor.h"
#include "lockstep/shm/mailbox.h"
#include "lockstep/shm/team.h"
#include "lockstep/shm/work_queue.h"

namespace lockstep::comm {

// What a backend and its works share; it ends with the last of them.
struct ShmGroup {
  explicit ShmGroup(std::unique_ptr<shm::Team> the_team);
  ~ShmGroup();  // Ends what still runs.
  ShmGroup(const ShmGroup&) = delete;
  ShmGroup& operator=(const ShmGroup&) = delete;

  std::unique_ptr<shm::Team> team;
  shm::Mailbox mailbox;
  shm::WorkQueue queue;  // Last: its thread uses the others.
};

// wait() runs the collective in the calling thread. A future is completed by the group's thread.
class ShmWork : public c10d::Work {
 public:
  ShmWork(std::shared_ptr<ShmGroup> group, shm::WorkQueue::JobPointer job, c10d::OpType type,
          std::vector<at::Tensor> outputs);

  bool isCompleted() override { return job_->is_done(); }
  bool isSuccess() const override { return job_->is_done() && !job_->error(); }
  std::exception_ptr exception() const override { return job_->error(); }
  // With a timeout other than kNoTimeout it leaves the work to the group's thread; at the end of
  // that time it throws PeerError, and the work goes on.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override {}
  std::vector<at::Tensor> result() override { return outputs_; }
  // Milliseconds that it ran, waiting for its peers included; 0 before it is done.
  float getDuration() const override { return job_->duration().count(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::shared_ptr<ShmGroup> group_;
  shm::WorkQueue::JobPointer job_;
  std::vector<at::Tensor> outputs_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// A message that is awaited.
class ShmReceive : public c10d::Work {
 public:
  ShmReceive(std::shared_ptr<ShmGroup> group, const at::Tensor& tensor, int source, int tag,
             std::chrono::milliseconds default_timeout);

  bool isCompleted() override;
  bool isSuccess() const override { return finished_ && receipt_->error.empty(); }
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override {}
  std::vector<at::Tensor> result() override { return {tensor_}; }
  int sourceRank() const override { return receipt_->from; }

 private:
  void put_in_place();

  std::shared_ptr<ShmGroup> group_;
  at::Tensor tensor_;
  Packed packed_;
  std::shared_ptr<shm::Receipt> receipt_;
  std::chrono::milliseconds default_timeout_;
  std::mutex finish_mutex_;
  std::atomic<bool> finished_{false};
};

}  // namespace lockstep::comm
