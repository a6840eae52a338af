#include "lockstep/comm/shm_work.h"

#include "lockstep/base/error.h"

namespace lockstep::comm {

ShmGroup::ShmGroup(std::unique_ptr<shm::Team> the_team)
    : team(std::move(the_team)), mailbox(*team) {}

ShmGroup::~ShmGroup() { team->watch().leave(); }

ShmWork::ShmWork(std::shared_ptr<ShmGroup> group, shm::WorkQueue::JobPointer job, c10d::OpType type,
                 std::vector<at::Tensor> outputs)
    : Work(group->team->rank(), type),
      group_(std::move(group)),
      job_(std::move(job)),
      outputs_(std::move(outputs)) {}

bool ShmWork::wait(std::chrono::milliseconds timeout) {
  if (timeout == kNoTimeout) {
    group_->queue.wait(*job_);
  } else if (!group_->queue.wait_until(*job_, Deadline::in(timeout))) {
    throw PeerError(c10d::opTypeToString(retrieveOpType()) + " on rank " + std::to_string(rank_) +
                    ": timed out: not done after " + to_text(timeout) +
                    "; it goes on, wait again or raise the timeout");
  }
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> ShmWork::getFuture() {
  const std::lock_guard lock(future_mutex_);
  if (!future_) {
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    group_->queue.when_done(
        *job_, [future = future_, outputs = outputs_](const std::exception_ptr& error) {
          error ? future->setError(error) : future->markCompleted(at::IValue(outputs));
        });
  }
  return future_;
}

ShmReceive::ShmReceive(std::shared_ptr<ShmGroup> group, const at::Tensor& tensor, int source,
                       int tag, std::chrono::milliseconds default_timeout)
    : Work(group->team->rank(),
           source == shm::kAnySource ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV),
      group_(std::move(group)),
      tensor_(tensor),
      packed_(tensor, Packed::Use::kWrite),
      default_timeout_(default_timeout) {
  receipt_ = group_->mailbox.post({.source = source,
                                   .tag = static_cast<std::uint64_t>(tag),
                                   .data = packed_.data(),
                                   .bytes = packed_.bytes(),
                                   .owner = std::make_shared<Packed>(packed_)});
}

bool ShmReceive::isCompleted() {
  if (!group_->mailbox.is_done(*receipt_)) {
    return false;
  }
  put_in_place();
  return true;
}

std::exception_ptr ShmReceive::exception() const {
  return finished_ && !receipt_->error.empty()
             ? std::make_exception_ptr(UsageError("recv: " + receipt_->error))
             : nullptr;
}

bool ShmReceive::wait(std::chrono::milliseconds timeout) {
  group_->mailbox.wait(*receipt_, Deadline::in(timeout == kNoTimeout ? default_timeout_ : timeout));
  put_in_place();
  return true;
}

void ShmReceive::put_in_place() {
  const std::lock_guard lock(finish_mutex_);
  if (!finished_) {
    if (receipt_->error.empty()) {
      packed_.write_back();
    }
    finished_ = true;
  }
}

}  // namespace lockstep::comm
