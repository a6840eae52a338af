// What happens on this node: starts the workers it is told to start, stops them when one fails,
// when told to or when the user interrupts, and reports how it went. When one stopped in order, the
// others have the shutdown time to end by themselves, without a signal.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "lockstep/launch/node/worker_group.h"

namespace lockstep::launch {

struct NodeHooks {
  std::function<void()> prepare;  // Before the first attempt; may throw.
  // Noticed, Failed, Unable, Stopped, Done, Interrupted.
  std::function<void(const Message&)> report;
  std::function<bool()> sweep;  // Kills whatever the workers left running; false: not all.
};

class LocalNode {
 public:
  // Everything referred to must outlive the node.
  LocalNode(const Context& context, EventLoop& loop, Consoles& consoles, NodeHooks hooks);

  // If a worker cannot be started, reports why and stops those that run.
  void start(const Start& command);
  void stop(const Stop& command);
  // A handled signal reached the launcher: passes it to the workers, which get the shutdown time to
  // end.
  void interrupt(int signal);
  // Passes on a signal that does not end the job. The workers get it, and nothing else happens now.
  // If workers start with this signal blocked, and the node has none now or only those of an ending
  // attempt, the workers of the next attempt get it, too. Otherwise a SIGUSR1 is reported to the
  // leader: it may have asked the job to stop.
  void pass_on(int signal);
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
  void prepare_and_start();

  const Context& context_;
  EventLoop& loop_;
  Consoles& consoles_;
  NodeHooks hooks_;
  Phase phase_ = Phase::kIdle;
  int attempt_ = -1;
  std::unique_ptr<WorkerGroup> workers_;
  Deadline deadline_;               // For stopping, then for killing.
  std::set<int> held_;              // Signals for the workers of the next attempt.
  bool stops_in_order_ = false;     // No worker was signalled.
  bool noticed_ = false;            // The workers of this attempt got SIGUSR1.
  bool said_that_we_wait_ = false;  // And for how long, in this attempt.
  std::string stuck_;               // What still lives of an attempt, if it could not be killed.
};

}  // namespace lockstep::launch
