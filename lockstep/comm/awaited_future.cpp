#include "lockstep/comm/awaited_future.h"

#include <thread>

#include "lockstep/base/no_sigpipe.h"

namespace lockstep::comm {

c10::intrusive_ptr<c10::ivalue::Future> awaited_future(c10::intrusive_ptr<c10d::Work> work) {
  auto future =
      c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  // Nobody can join it: what it owns may be dropped by its own callbacks.
  std::thread([work = std::move(work), future]() mutable {
    const NoSigpipe no_sigpipe;
    try {
      work->wait();
      future->markCompleted(at::IValue(work->result()));
    } catch (const std::exception&) {
      future->setError(std::current_exception());
    }
  }).detach();
  return future;
}

}  // namespace lockstep::comm
