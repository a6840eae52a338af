#include "lockstep/comm/backends/hosts/message_work.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {

MessageWork::MessageWork(std::shared_ptr<HostLinks> links, net::MessagePointer message, Call call)
    : Work(-1, call.type),
      links_(std::move(links)),
      message_(std::move(message)),
      arrival_(std::make_shared<Arrival>(std::move(call))) {}

bool MessageWork::isCompleted() {
  links_->throw_if_fork(arrival_->call.name);
  if (!message_->is_done()) {
    return false;
  }
  if (!message_->error()) {
    arrival_->put_in_place();
  }
  return true;
}

bool MessageWork::wait(std::chrono::milliseconds timeout) {
  const Call& call = arrival_->call;
  links_->throw_if_fork(call.name);
  try {
    links_->await(*message_, Deadline::in(timeout == kNoTimeout ? call.timeout : timeout));
  } catch (const PeerError& error) {
    if (message_->is_send() || error.cause() != PeerError::Cause::kLate) {
      fail(*links_, *message_, call, std::current_exception());
    }
    links_->mailbox().give_up(message_, error.what());
    if (!message_->is_done()) {
      links_->fail_or_leave(call.name, std::current_exception());
    }
    if (const auto failure = message_->error()) {
      fail(*links_, *message_, call, failure);
    }  // Else it came just now.
  } catch (const std::exception&) {
    fail(*links_, *message_, call, std::current_exception());
  }
  arrival_->put_in_place();
  return true;
}

void MessageWork::fail(HostLinks& links, const net::Message& message, const Call& call,
                       const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PeerError& late) {
    if (!message.is_send() && late.cause() == PeerError::Cause::kLate) {
      throw late.during(call.name);
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see below.
  }
  links.fail_or_leave(call.name, error);
}

c10::intrusive_ptr<c10::ivalue::Future> MessageWork::getFuture() {
  links_->throw_if_fork(arrival_->call.name);
  const std::lock_guard lock(future_mutex_);
  if (future_) {
    return future_;
  }
  future_ = new_future();
  // The links outlive it: they end after the thread that calls this.
  links_->mailbox().when_done(
      message_, Deadline::in(arrival_->call.timeout),
      [links = links_.get(), message = message_, arrival = arrival_, future = future_] {
        try {
          if (message->error()) {
            fail(*links, *message, arrival->call, message->error());
          }
          arrival->put_in_place();
        } catch (const std::exception&) {
          future->setError(std::current_exception());
          return;
        }
        future->markCompleted(at::IValue(arrival->call.tensors));
      });
  return future_;
}

void MessageWork::Arrival::put_in_place() {
  const std::lock_guard lock(mutex);
  if (const auto finish = std::exchange(call.finish, nullptr)) {
    const at::NoGradGuard no_grad;
    finish();
  }
}

}  // namespace lockstep::comm
