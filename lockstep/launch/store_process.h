// The job's key-value store (a c10d TCPStore), in a process of its own beside the workers.
#pragma once

#include <sys/types.h>

#include <string>

#include "lockstep/base/socket.h"
#include "lockstep/launch/context.h"
#include "lockstep/launch/event_loop.h"
#include "lockstep/launch/spawn.h"

namespace lockstep::launch {

class StoreProcess {
 public:
  // `context` and `loop` must outlive the store.
  StoreProcess(const Context& context, EventLoop& loop) : context_(context), loop_(loop) {}
  ~StoreProcess() { stop(); }
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;

  // Ends the one before, listens, hands the socket to a new process and returns the port without
  // waiting: clients that come early queue. Throws UsageError if a port asked for is taken.
  //
  // Where the store's program is not installed, the first client to come is an IoError thrown
  // from the event loop; programs that need no store never notice.
  int open(const Endpoint& endpoint);
  void stop();

  [[nodiscard]] pid_t pid() const { return child_.pid; }
  // To be called when the process has ended by itself and was reaped.
  void forget() { child_ = {}; }

 private:
  const Context& context_;
  EventLoop& loop_;
  Listener listener_;  // Only while there is no program to hand it to.
  Child child_;
};

}  // namespace lockstep::launch
