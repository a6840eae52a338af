// The job's key-value store (a c10d TCPStore), in a process of its own beside the workers.
#pragma once

#include <sys/types.h>

#include <string>

#include "lockstep/base/sockets/socket.h"
#include "lockstep/launch/context.h"
#include "lockstep/launch/event_loop.h"
#include "lockstep/launch/node/spawn.h"

namespace lockstep::launch {

class StoreProcess {
 public:
  // `context` and `loop` must outlive the store.
  StoreProcess(const Context& context, EventLoop& loop) : context_(context), loop_(loop) {}
  ~StoreProcess() { stop(); }
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;

  // Ends the previous store, listens, hands the socket to a new process and returns the port
  // without waiting; early clients queue. Throws UsageError if a requested port is taken.
  //
  // If the store's program is not installed, the event loop throws IoError when the first client
  // connects. Programs that need no store never notice.
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
