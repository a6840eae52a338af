// This process as one of an MPI job: the library, started once and ended once; private to comm.
#pragma once

#include <optional>

#include "lockstep/comm/backends/mpi/engine.h"

namespace lockstep::comm {

class MpiProcess {
 public:
  // Returns MPI. The first call starts it and waits for all ranks of the job to do the same. There
  // is one per process, because MPI allows only one. It ends when the process exits with status 0,
  // and the exit waits for the other ranks to do the same. A process that fails leaves at once;
  // mpirun sees that and ends the others.
  //
  // Throws UsageError if the library is missing, if the program itself started it without support
  // for several threads, and in a fork of a process that has called this; PeerError if the other
  // ranks do not start it before the deadline.
  static MpiProcess& get(Deadline deadline);
  // How many ranks mpirun started, this one included, as far as can be told without starting MPI.
  // 1 if mpirun did not start this process; nothing if another program with the same protocol did
  // (srun --mpi=pmix).
  static std::optional<int> ranks_started();

  [[nodiscard]] const MpiLibrary& mpi() const { return mpi_; }
  [[nodiscard]] MpiEngine& engine() { return engine_; }
  [[nodiscard]] int rank() const { return rank_; }  // In MPI_COMM_WORLD.
  [[nodiscard]] int size() const { return size_; }

  // Makes a communicator of these ranks of MPI_COMM_WORLD, in this order; all of them call it. The
  // tag distinguishes groups that are made at the same time.
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
  bool ours_ = false;  // Started by us, so ended by us.
  int rank_ = 0;
  int size_ = 0;          // Not started yet. Written by the engine's thread.
  bool is_open_ = false;  // get() has seen that it is started.
};

}  // namespace lockstep::comm
