#include "lockstep/comm/forwarded_work.h"

#include "lockstep/comm/peer_error.h"

namespace lockstep::comm {

ForwardedWork::ForwardedWork(std::shared_ptr<HostLinks> links, c10::intrusive_ptr<c10d::Work> work,
                             std::string what)
    : Work(-1, work->retrieveOpType()),
      links_(std::move(links)),
      work_(std::move(work)),
      what_(std::move(what)) {}

bool ForwardedWork::wait(std::chrono::milliseconds timeout) {
  const auto type = retrieveOpType();
  const bool is_message = type == c10d::OpType::SEND || type == c10d::OpType::RECV ||
                          type == c10d::OpType::RECVANYSOURCE || type == c10d::OpType::UNKNOWN;
  // Not a message: Gloo ends it when a wait for it is over.
  const bool watched = timeout == kNoTimeout && !is_message;
  try {
    if (!watched) {
      return work_->wait(timeout);
    }
    links_->waiter().wait(*work_);
    return true;
  } catch (const std::exception& error) {
    if (!watched &&
        (!work_->isCompleted() || work_->isSuccess())) {  // The caller's patience ended.
      rethrow_as_peer_error(what_);
    }
    links_->fail(what_, error);
  }
}

}  // namespace lockstep::comm
