// One thread, many descriptors: calls a function when a descriptor is ready.
#pragma once

#include <poll.h>

#include <functional>
#include <map>

#include "lockstep/base/deadline.h"

namespace lockstep::launch {

class EventLoop {
 public:
  using Handler = std::function<void()>;

  // The handler runs whenever `fd` has one of `events` (POLLIN, POLLOUT), an error or a hang-up.
  // Watching a descriptor again replaces its events and handler.
  void watch(int fd, short events, Handler handler);
  void forget(int fd);

  // Waits for something to happen, at most until the deadline, and runs the handlers of what
  // did. A handler may watch and forget any descriptor.
  void run_once(Deadline deadline);

 private:
  struct Watch {
    short events = 0;
    Handler handler;
    unsigned long generation = 0;
  };

  std::map<int, Watch> watches_;
  unsigned long generation_ = 0;
};

}  // namespace lockstep::launch
