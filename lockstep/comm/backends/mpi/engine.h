// Drives MPI's operations, and ends those that are late; private to comm.
//
// MPI makes progress only while it is called. All calls go through one lock, and no call for an
// operation blocks. Operations are started, then tested until they are done or late. The threads
// that wait for them do this or, if none waits, the engine's own thread.
//
// A fork has neither that thread nor a connection to itself, and MPI's lock may be held there for
// ever. So nothing in it calls MPI.
#pragma once

#include "lockstep/base/process/fork_guard.h"
#include "lockstep/comm/backends/mpi/operation.h"
#include "lockstep/comm/backends/mpi/thread.h"

namespace lockstep::comm {

class MpiEngine {
 public:
  explicit MpiEngine(const MpiLibrary& mpi);

  // Throws UsageError, which begins with `what`, in a fork of the process that made it.
  void require_owner(const std::string& what) const;
  [[nodiscard]] bool in_owner() const { return fork_guard_.in_owner(); }

  // Operations of a group start in the order of the calls. Throws PeerError if the group is broken,
  // and UsageError in a fork.
  void start(const std::shared_ptr<MpiOperation>& operation);
  // Returns false at the deadline; the operation goes on. Throws UsageError in a fork, unless the
  // operation was done by then.
  bool wait(const MpiOperation& operation, Deadline until);
  // Ends it with a PeerError. A collective breaks its group; its memory stays MPI's.
  void give_up(const std::shared_ptr<MpiOperation>& operation, const PeerError& why);
  // Ends all operations of the group, and lets it start no other. Does nothing in a fork.
  void break_up(MpiGroup& group, const std::string& why);

  // Runs something that may block: see MpiThread::run_alone(). Throws UsageError in a fork.
  void run_alone(const std::string& what, std::function<void()> task, Deadline deadline) {
    require_owner(what);
    thread_.run_alone(what, std::move(task), deadline);
  }
  // Runs something that does not block. Returns false, and does not run it, in a fork, if MPI's
  // lock cannot be had within a second, or if MPI was closed.
  bool run_here(const std::function<void()>& task);
  // Makes a last call, which may block until the deadline. After that nothing is started or tested.
  void close(const std::function<void()>& last_call, Deadline deadline);

  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

 private:
  using Operation = std::shared_ptr<MpiOperation>;
  struct Ended {
    Operation operation;
    std::exception_ptr error;
  };

  void poll(Deadline until);
  // With calls_ held:
  bool test(const Operation& operation, std::vector<Ended>& ended);
  std::exception_ptr drop(const Operation& operation, const PeerError& why);

  ForkGuard fork_guard_;
  const MpiLibrary& mpi_;

  std::timed_mutex calls_;  // MPI, and these:
  std::vector<Operation> under_way_;
  std::vector<Operation> dropped_;  // MPI may still write to their memory.
  bool closed_ = false;

  MpiThread thread_;  // Last: it uses the others.
};

}  // namespace lockstep::comm
