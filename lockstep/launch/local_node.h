// What happens on this node: starts the workers it is told to start, stops them when one fails,
// when told to or when the user interrupts, and reports how it went.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/launch/worker_group.h"

namespace lockstep::launch {

struct NodeHooks {
  std::function<void(const Message&)> report;  // Failed, Stopped, Done, Interrupted.
  std::function<void()> sweep;                 // Kills whatever the workers left running.
};

class LocalNode {
 public:
  // Everything referred to must outlive the node.
  LocalNode(const Context& context, EventLoop& loop, Consoles& consoles, NodeHooks hooks);

  void start(const Start& command);
  void stop(const Stop& command);
  // A handled signal reached the launcher: the workers get it, and the shutdown time to end.
  void interrupt(int signal);
  void on_exits(const std::vector<ChildExit>& exits);
  // To be called now and then while busy().
  void on_time();
  void update_watches();

  // Whether something must happen at a certain time.
  [[nodiscard]] bool busy() const {
    return phase_ == Phase::kStopping || phase_ == Phase::kKilling;
  }

 private:
  enum class Phase { kIdle, kRunning, kStopping, kKilling };

  void begin_stop(int signal);
  void finish_if_all_ended();
  void finish();

  const Context& context_;
  EventLoop& loop_;
  Consoles& consoles_;
  NodeHooks hooks_;
  Phase phase_ = Phase::kIdle;
  int attempt_ = -1;
  std::unique_ptr<WorkerGroup> workers_;
  Deadline deadline_;               // Of stopping, then of killing.
  bool said_that_we_wait_ = false;  // And for how long, in this attempt.
};

}  // namespace lockstep::launch
