// What the works of the shared-memory backend share, and its messages as c10d works.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "lockstep/base/work_queue.h"
#include "lockstep/comm/backends/support/profile.h"
#include "lockstep/comm/backends/support/tensor_bytes.h"
#include "lockstep/shm/collectives/mailbox.h"
#include "lockstep/shm/collectives/receive_thread.h"
#include "lockstep/shm/peers/team.h"

namespace lockstep::comm {

// What a backend and its works share; it ends with the last of them.
struct ShmGroup {
  explicit ShmGroup(std::unique_ptr<shm::Team> the_team);
  ~ShmGroup();  // Ends what still runs.
  ShmGroup(const ShmGroup&) = delete;
  ShmGroup& operator=(const ShmGroup&) = delete;

  std::unique_ptr<shm::Team> team;
  shm::Mailbox mailbox;
  // Last: their threads use the others.
  shm::ReceiveThread receive_thread;
  WorkQueue queue;
};

// A message that is awaited. A receive that failed, also because a wait for it timed out, is
// complete and stays failed: the message, should it come, is for the next receive. Its future is
// completed by the group's receive thread, and does not keep the group.
class ShmReceive : public c10d::Work {
 public:
  ShmReceive(std::shared_ptr<ShmGroup> group, const at::Tensor& tensor, int source, int tag,
             std::chrono::milliseconds default_timeout);

  bool isCompleted() override;
  bool isSuccess() const override { return message_->finished && !message_->receipt->failure; }
  std::exception_ptr exception() const override {
    return message_->finished ? message_->receipt->failure : nullptr;
  }
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override {}
  std::vector<at::Tensor> result() override { return {message_->tensor}; }
  int sourceRank() const override { return message_->receipt->from; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  // What the receive thread needs, too.
  struct Message {
    Message(const at::Tensor& the_tensor, c10d::OpType type);
    void put_in_place();  // Once, when it is done.

    at::Tensor tensor;
    Packed packed;
    std::shared_ptr<shm::Receipt> receipt;
    std::mutex mutex;
    std::atomic<bool> finished{false};
    std::shared_ptr<at::RecordFunction> event;
  };

  std::shared_ptr<ShmGroup> group_;
  std::shared_ptr<Message> message_;
  std::chrono::milliseconds default_timeout_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace lockstep::comm
