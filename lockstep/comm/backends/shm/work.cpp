#include "lockstep/comm/backends/shm/work.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {

ShmGroup::ShmGroup(std::unique_ptr<shm::Team> the_team)
    : team(std::move(the_team)), mailbox(*team), receive_thread(*team, mailbox) {}

ShmGroup::~ShmGroup() { team->watch().leave(); }

ShmReceive::Message::Message(const at::Tensor& the_tensor, c10d::OpType type)
    : tensor(the_tensor),
      packed(the_tensor, Packed::Use::kWrite),
      event(begin_profile(type, {&the_tensor, 1})) {}

ShmReceive::ShmReceive(std::shared_ptr<ShmGroup> group, const at::Tensor& tensor, int source,
                       int tag, std::chrono::milliseconds default_timeout)
    : Work(group->team->rank(),
           source == shm::kAnySource ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV),
      group_(std::move(group)),
      message_(std::make_shared<Message>(tensor, opType_)),
      default_timeout_(default_timeout) {
  message_->receipt = group_->mailbox.post({.source = source,
                                            .tag = static_cast<std::uint64_t>(tag),
                                            .data = message_->packed.data(),
                                            .bytes = message_->packed.bytes(),
                                            .owner = std::make_shared<Packed>(message_->packed)});
}

bool ShmReceive::isCompleted() {
  if (!message_->finished && group_->mailbox.is_done(*message_->receipt)) {
    message_->put_in_place();
  }
  return message_->finished;
}

bool ShmReceive::wait(std::chrono::milliseconds timeout) {
  const auto deadline = Deadline::in(timeout == kNoTimeout ? default_timeout_ : timeout);
  if (!message_->finished) {
    group_->mailbox.complete(*message_->receipt, deadline);
    message_->put_in_place();
  }
  if (message_->receipt->failure) {
    std::rethrow_exception(message_->receipt->failure);
  }
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> ShmReceive::getFuture() {
  group_->team->watch().throw_if_broken();  // Also in a fork.
  const std::lock_guard lock(future_mutex_);
  if (!future_) {
    future_ = new_future();
    group_->receive_thread.when_done(
        message_->receipt, Deadline::in(default_timeout_), [message = message_, future = future_] {
          try {
            message->put_in_place();
            if (message->receipt->failure) {
              std::rethrow_exception(message->receipt->failure);
            }
          } catch (const std::exception&) {
            future->setError(std::current_exception());
            return;
          }
          future->markCompleted(at::IValue(std::vector<at::Tensor>{message->tensor}));
        });
  }
  return future_;
}

void ShmReceive::Message::put_in_place() {
  const std::lock_guard lock(mutex);
  if (!finished) {
    if (!receipt->failure) {
      const at::NoGradGuard no_grad;
      packed.write_back();
    }
    finished = true;
    event.reset();
  }
}

}  // namespace lockstep::comm
