// What MPI is asked to do for one call of a user, and how it ended; private to comm.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/backends/mpi/library.h"

namespace lockstep::comm {

// A communicator of some ranks. `broken` says why it is unusable; empty while it is usable.
struct MpiGroup {
  MPI_Comm comm;
  std::string broken;
};

// Starts one non-blocking call of MPI; holds the memory that MPI reads and writes.
using MpiBegin = std::function<int(const MpiLibrary&, MPI_Comm, MPI_Request*)>;

// Puts the result in place, in whichever thread sees the end; given the last request's status.
using MpiFinish = std::function<void(const MPI_Status&)>;
// Does all of them that are not null; null if there is none.
MpiFinish finish_with(std::vector<std::function<void()>> parts);

struct MpiCall {
  std::string what = {};  // "all_reduce #12 on rank 1 of 4": how errors begin.
  Deadline deadline = Deadline::in({});
  std::vector<MpiBegin> begins = {};
  MpiFinish finish = {};
  // A message, not a collective: a late message does not break the group.
  bool is_message = false;
  // The message is being received, not sent.
  bool is_receive = false;
};

// Thread-safe, except for the members that MpiProcess uses under its lock.
class MpiOperation {
 public:
  MpiOperation(std::shared_ptr<MpiGroup> the_group, MpiCall the_call)
      : group(std::move(the_group)), call(std::move(the_call)) {}

  [[nodiscard]] bool is_done() const { return done_.load(std::memory_order_acquire); }
  // Null while it runs, and after success. Without the lock, which may be held for ever in a fork.
  [[nodiscard]] std::exception_ptr error() const { return is_done() ? error_ : nullptr; }

  using Callback = std::function<void(const std::exception_ptr&)>;
  // Calls back once: now if it is done, else from the thread that sees its end.
  void when_done(Callback callback);

  // The first call counts; further calls do nothing. Without an error, runs `finish`; what that
  // throws becomes the operation's error.
  void end(std::exception_ptr error);

  // Used by MpiProcess under its lock.
  const std::shared_ptr<MpiGroup> group;
  MpiCall call;
  std::vector<MPI_Request> requests;
  std::size_t completed = 0;  // How many of the requests, from the first.
  MPI_Status status{};        // The last request's, once it is done.

 private:
  std::mutex mutex_;
  std::atomic<bool> ending_{false};
  std::atomic<bool> done_{false};
  std::exception_ptr error_;
  std::vector<Callback> callbacks_;
};

}  // namespace lockstep::comm
