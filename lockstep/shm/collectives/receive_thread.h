// Tells when receives are done that nobody waits for.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/process/fork_guard.h"
#include "lockstep/shm/collectives/mailbox.h"

namespace lockstep::shm {

// One thread for all receives of a group, started with the first. Thread-safe.
class ReceiveThread {
 public:
  // Both must outlive this. The mailbox belongs to the team.
  ReceiveThread(Team& team, Mailbox& mailbox);
  // The rank has left the group: receives that are not done fail, and their callbacks run. In a
  // fork, which has no such thread, it does nothing.
  ~ReceiveThread();
  ReceiveThread(const ReceiveThread&) = delete;
  ReceiveThread& operator=(const ReceiveThread&) = delete;

  // Calls `tell` once, in the thread, when the receive is done, which it is at the deadline.
  // What `tell` throws is lost; it may drop the last pointer to the group. Throws UsageError in a
  // fork.
  void when_done(std::shared_ptr<Receipt> receipt, Deadline deadline, std::function<void()> tell);

 private:
  struct Pending;
  struct State;  // Shared with the thread: it may outlive this by a moment.

  static void tend(State& state, Team& team, Mailbox& mailbox);
  static bool tell_one(State& state, Mailbox& mailbox);

  Team& team_;
  Mailbox& mailbox_;
  std::shared_ptr<State> state_;
  std::thread thread_;
  ForkGuard fork_guard_;
};

}  // namespace lockstep::shm
