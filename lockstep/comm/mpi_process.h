// This process as one of an MPI job: the library, started once and ended once; private to comm.
#pragma once

#include <optional>

#include "lockstep/comm/mpi_engine.h"

namespace lockstep::comm {

class MpiProcess {
 public:
  // MPI, started at the first call, which waits for all ranks of the job to do the same. One per
  // process, because MPI is. It is ended when the process exits with status 0, which waits for the
  // other ranks to do the same; a process that fails leaves at once, and mpirun, which sees that,
  // ends the others.
  //
  // Throws UsageError if the library is missing, or was started by the program itself and not for
  // several threads; PeerError if the other ranks do not start it before the deadline.
  static MpiProcess& get(Deadline deadline);
  // How many ranks mpirun started with this one, as far as can be told without starting MPI: 1 if
  // it was not mpirun, nothing if it was another that speaks its protocol (srun --mpi=pmix).
  static std::optional<int> ranks_started();

  [[nodiscard]] const MpiLibrary& mpi() const { return mpi_; }
  [[nodiscard]] MpiEngine& engine() { return engine_; }
  [[nodiscard]] int rank() const { return rank_; }  // In MPI_COMM_WORLD.
  [[nodiscard]] int size() const { return size_; }

  // A communicator of these ranks of MPI_COMM_WORLD, in this order; all of them call it. The tag
  // tells groups apart that are made at the same time.
  std::shared_ptr<MpiGroup> make_group(const std::vector<int>& members, int tag, Deadline deadline);

  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

 private:
  MpiProcess();
  void open();
  void leave(int status);
  void free_group(MpiGroup* group);

  MpiLibrary mpi_;
  MpiEngine engine_;
  int process_id_;
  bool ours_ = false;  // Started by us, so ended by us.
  int rank_ = 0;
  int size_ = 0;          // Not started yet. Written by the engine's thread.
  bool is_open_ = false;  // get() has seen that it is started.
};

}  // namespace lockstep::comm
