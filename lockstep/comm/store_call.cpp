#include "lockstep/comm/store_call.h"

#include <exception>
#include <future>
#include <thread>
#include <utility>

namespace lockstep::comm {

bool within(std::chrono::milliseconds limit, std::function<void()> call) noexcept {
  try {
    std::packaged_task<void()> task(std::move(call));
    const auto ended = task.get_future();
    std::thread thread(std::move(task));
    const bool in_time = ended.wait_for(limit) == std::future_status::ready;
    if (in_time) {
      thread.join();
    } else {
      thread.detach();
    }
    return in_time;
  } catch (const std::exception&) {  // No thread, or no memory.
    return false;
  }
}

}  // namespace lockstep::comm
