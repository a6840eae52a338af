// What the works of the shared-memory backend share, and its messages as c10d works.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "lockstep/comm/profile.h"
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

// A message that is awaited. A receive that failed, also because a wait for it timed out, is
// complete and stays failed: the message, should it come, is for the next receive.
class ShmReceive : public c10d::Work {
 public:
  ShmReceive(std::shared_ptr<ShmGroup> group, const at::Tensor& tensor, int source, int tag,
             std::chrono::milliseconds default_timeout);

  bool isCompleted() override;
  bool isSuccess() const override { return finished_ && !receipt_->failure; }
  std::exception_ptr exception() const override { return finished_ ? receipt_->failure : nullptr; }
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override {}
  std::vector<at::Tensor> result() override { return {tensor_}; }
  int sourceRank() const override { return receipt_->from; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void put_in_place();

  std::shared_ptr<ShmGroup> group_;
  at::Tensor tensor_;
  Packed packed_;
  std::shared_ptr<shm::Receipt> receipt_;
  std::chrono::milliseconds default_timeout_;
  std::mutex finish_mutex_;
  std::atomic<bool> finished_{false};
  std::shared_ptr<at::RecordFunction> event_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace lockstep::comm
