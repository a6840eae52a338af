// Makes MPI's operations go on, and ends those that are late; private to comm.
//
// MPI makes progress only while it is called. All calls go through one lock, and none that is made
// for an operation blocks: operations are started, and tested until they are done or late, by the
// threads that wait for them and, when none waits, by a thread of the engine's own.
#pragma once

#include "lockstep/comm/mpi_operation.h"
#include "lockstep/comm/mpi_thread.h"

namespace lockstep::comm {

class MpiEngine {
 public:
  explicit MpiEngine(const MpiLibrary& mpi);

  // Operations of a group start in the order of the calls. Throws PeerError if the group is broken.
  void start(const std::shared_ptr<MpiOperation>& operation);
  // False at the deadline; the operation goes on.
  bool wait(const MpiOperation& operation, Deadline until);
  // Ends it with a PeerError. A collective breaks its group; its memory stays MPI's.
  void give_up(const std::shared_ptr<MpiOperation>& operation, const std::string& why);
  // Ends all operations of the group, and lets it start no other.
  void break_up(MpiGroup& group, const std::string& why);

  // Something that may block: see MpiThread::run_alone().
  void run_alone(const std::string& what, std::function<void()> task, Deadline deadline) {
    thread_.run_alone(what, std::move(task), deadline);
  }
  // Something that does not block. False, and not called, if MPI is not to be had for a second or
  // was closed.
  bool run_here(const std::function<void()>& task);
  // Nothing is started or tested any more, after a last call that may block until the deadline.
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
  std::exception_ptr drop(const Operation& operation, const std::string& why);

  const MpiLibrary& mpi_;

  std::timed_mutex calls_;  // MPI, and these:
  std::vector<Operation> under_way_;
  std::vector<Operation> dropped_;  // MPI may still write to their memory.
  bool closed_ = false;

  MpiThread thread_;  // Last: it uses the others.
};

}  // namespace lockstep::comm
