#include "lockstep/comm/shm_work.h"

#include <ATen/record_function.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/awaited_future.h"

namespace lockstep::comm {

ShmGroup::ShmGroup(std::unique_ptr<shm::Team> the_team)
    : team(std::move(the_team)), mailbox(*team) {}

ShmGroup::~ShmGroup() { team->watch().leave(); }

ShmReceive::ShmReceive(std::shared_ptr<ShmGroup> group, const at::Tensor& tensor, int source,
                       int tag, std::chrono::milliseconds default_timeout)
    : Work(group->team->rank(),
           source == shm::kAnySource ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV),
      group_(std::move(group)),
      tensor_(tensor),
      packed_(tensor, Packed::Use::kWrite),
      default_timeout_(default_timeout),
      event_(begin_profile(opType_, {&tensor, 1})) {
  receipt_ = group_->mailbox.post({.source = source,
                                   .tag = static_cast<std::uint64_t>(tag),
                                   .data = packed_.data(),
                                   .bytes = packed_.bytes(),
                                   .owner = std::make_shared<Packed>(packed_)});
}

bool ShmReceive::isCompleted() {
  if (!finished_ && group_->mailbox.is_done(*receipt_)) {
    put_in_place();
  }
  return finished_;
}

bool ShmReceive::wait(std::chrono::milliseconds timeout) {
  const auto deadline = Deadline::in(timeout == kNoTimeout ? default_timeout_ : timeout);
  if (!finished_) {
    group_->mailbox.complete(*receipt_, deadline);
    put_in_place();
  }
  if (receipt_->failure) {
    std::rethrow_exception(receipt_->failure);
  }
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> ShmReceive::getFuture() {
  group_->team->watch().throw_if_broken();  // Also in a fork.
  const std::lock_guard lock(finish_mutex_);
  if (!future_) {
    future_ = awaited_future(c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this));
  }
  return future_;
}

void ShmReceive::put_in_place() {
  const std::lock_guard lock(finish_mutex_);
  if (!finished_) {
    if (!receipt_->failure) {
      packed_.write_back();
    }
    finished_ = true;
    event_.reset();
  }
}

}  // namespace lockstep::comm
