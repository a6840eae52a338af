#include "lockstep/comm/backends/mpi/operation.h"

namespace lockstep::comm {

MpiFinish finish_with(std::vector<std::function<void()>> parts) {
  std::erase(parts, nullptr);
  if (parts.empty()) {
    return nullptr;
  }
  return [parts](const MPI_Status&) {
    for (const auto& part : parts) {
      part();
    }
  };
}

void MpiOperation::when_done(Callback callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!done_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(error());
}

void MpiOperation::end(std::exception_ptr error) {
  if (ending_.exchange(true)) {
    return;
  }
  if (!error && call.finish) {
    try {
      call.finish(status);
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (!error) {  // Else MPI may still use the memory that they hold.
    call.begins.clear();
    call.finish = nullptr;
  }
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(mutex_);
    error_ = error;  // From now on it stays as it is.
    callbacks.swap(callbacks_);
    done_.store(true, std::memory_order_release);
  }
  for (const auto& callback : callbacks) {
    callback(error);
  }
}

}  // namespace lockstep::comm
