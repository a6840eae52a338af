#include "lockstep/base/run_on_threads.h"

#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace lockstep {

void run_on_threads(std::size_t threads, const std::function<void()>& work) {
  std::mutex mutex;
  std::exception_ptr failure;
  const auto part = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = failure ? failure : std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::size_t i = 1; i < threads; ++i) {
        others.emplace_back(part);
      }
    } catch (const std::system_error&) {  // There may be no more: ulimit -u.
    }
    part();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace lockstep
