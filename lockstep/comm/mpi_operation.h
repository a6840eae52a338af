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
#include "lockstep/comm/mpi_library.h"

namespace lockstep::comm {

// A communicator of some ranks. `broken` says why it is of no use any more, if it is.
struct MpiGroup {
  MPI_Comm comm;
  std::string broken;
};

// Starts one non-blocking call of MPI; holds the memory that MPI reads and writes.
using MpiBegin = std::function<int(const MpiLibrary&, MPI_Comm, MPI_Request*)>;

struct MpiCall {
  std::string what;  // "all_reduce #12 on rank 1 of 4": how errors begin.
  Deadline deadline = Deadline::in({});
  std::vector<MpiBegin> begins;
  // Puts the result in place, in whichever thread sees the end; given the last request's status.
  std::function<void(const MPI_Status&)> finish;
  // A message, not a collective: late ones leave the others of the group in order.
  bool is_message = false;
  // Of a message that is awaited.
  bool is_receive = false;
};

// Thread-safe, but for what MpiProcess does with it under its lock.
class MpiOperation {
 public:
  MpiOperation(std::shared_ptr<MpiGroup> the_group, MpiCall the_call)
      : group(std::move(the_group)), call(std::move(the_call)) {}

  [[nodiscard]] bool is_done() const { return done_.load(std::memory_order_acquire); }
  // Null while it runs, and after success.
  [[nodiscard]] std::exception_ptr error() const;

  using Callback = std::function<void(const std::exception_ptr&)>;
  // Calls back once: now if it is done, else from the thread that sees its end.
  void when_done(Callback callback);

  // Once; further calls do nothing. Finishes what went well; what finishing throws becomes the
  // operation's error.
  void end(std::exception_ptr error);

  // Of MpiProcess, under its lock.
  const std::shared_ptr<MpiGroup> group;
  MpiCall call;
  std::vector<MPI_Request> requests;
  std::size_t completed = 0;  // How many of the requests, from the first.
  MPI_Status status{};        // Of the last one; of use when it is done.

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> ending_{false};
  std::atomic<bool> done_{false};
  std::exception_ptr error_;
  std::vector<Callback> callbacks_;
};

}  // namespace lockstep::comm
