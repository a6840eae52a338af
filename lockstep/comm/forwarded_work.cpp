#include "lockstep/comm/forwarded_work.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "lockstep/comm/awaited_future.h"

namespace lockstep::comm {

ForwardedWork::ForwardedWork(std::shared_ptr<HostLinks> links, c10::intrusive_ptr<c10d::Work> work,
                             std::string what, std::vector<at::Tensor> tensors,
                             std::function<void()> finish)
    : Work(-1, work->retrieveOpType()),
      links_(std::move(links)),
      work_(std::move(work)),
      what_(std::move(what)),
      tensors_(std::move(tensors)),
      finish_(std::move(finish)) {}

ForwardedWork::~ForwardedWork() {
  if (!links_->in_owner()) {
    (void)work_.release();  // Its destructor would wait for threads that a fork does not have.
  }
}

bool ForwardedWork::isCompleted() {
  links_->throw_if_fork(what_);
  if (!work_->isCompleted()) {
    return false;
  }
  if (work_->isSuccess()) {
    put_in_place();
  }
  return true;
}

bool ForwardedWork::wait(std::chrono::milliseconds timeout) {
  links_->throw_if_fork(what_);
  try {
    work_->wait(timeout);
  } catch (const std::exception& error) {
    links_->fail(what_, error);
  }
  put_in_place();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> ForwardedWork::getFuture() {
  links_->throw_if_fork(what_);
  const std::lock_guard lock(mutex_);
  if (!future_) {
    future_ = awaited_future(c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this));
  }
  return future_;
}

void ForwardedWork::put_in_place() {
  const std::lock_guard lock(mutex_);
  if (const auto finish = std::exchange(finish_, nullptr)) {
    const at::NoGradGuard no_grad;
    finish();
  }
}

}  // namespace lockstep::comm
