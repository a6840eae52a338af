#include "lockstep/launch/event_loop.h"

#include <cerrno>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep::launch {

void EventLoop::watch(int fd, short events, Handler handler) {
  watches_[fd] = {events, std::move(handler), ++generation_};
}

void EventLoop::forget(int fd) { watches_.erase(fd); }

void EventLoop::run_once(Deadline deadline) {
  std::vector<pollfd> descriptors;
  descriptors.reserve(watches_.size());
  for (const auto& [fd, watch] : watches_) {
    descriptors.push_back({fd, watch.events, 0});
  }
  const unsigned long polled_until = generation_;
  const int ready = ::poll(descriptors.data(), descriptors.size(), deadline.poll_timeout());
  if (ready < 0 && errno != EINTR) {
    throw_errno("waiting for events");
  }
  for (const auto& descriptor : descriptors) {
    const auto found = watches_.find(descriptor.fd);
    // A handler may have closed this descriptor, and another thing may have its number now.
    if (descriptor.revents == 0 || found == watches_.end() ||
        found->second.generation > polled_until) {
      continue;
    }
    const Handler handler = found->second.handler;  // The handler may forget itself.
    handler();
  }
}

}  // namespace lockstep::launch
