// Open MPI's library, loaded when the first mpi backend is made; private to comm.
//
// It is not linked. Linked, it would add 8 libraries and 2.2 ms to the start of every program
// (2-core x86_64, 2026-11-15) and would have to be installed even where nobody uses it. The price
// is this table: MPI's functions by their names, its constants by Open MPI's symbols.
#pragma once

#include <mpi.h>

#include <string>

namespace lockstep::comm {

struct MpiLibrary {
  // Throws UsageError if the library that was there when lockstep was built is not here.
  MpiLibrary();

  // MPI_FLOAT is object<MPI_Datatype>("ompi_mpi_float").
  template <class Handle>
  [[nodiscard]] Handle object(const char* symbol) const {
    return static_cast<Handle>(find(symbol));
  }
  [[nodiscard]] MPI_Comm world() const { return object<MPI_Comm>("ompi_mpi_comm_world"); }

  // Throws PeerError with `what` and MPI's words unless the code is MPI_SUCCESS.
  void check(int code, const std::string& what) const;

  decltype(&MPI_Initialized) initialized;
  decltype(&MPI_Query_thread) query_thread;
  decltype(&MPI_Init_thread) init_thread;
  decltype(&MPI_Finalized) finalized;
  decltype(&MPI_Finalize) finalize;
  decltype(&MPI_Error_string) error_string;

  decltype(&MPI_Comm_rank) comm_rank;
  decltype(&MPI_Comm_size) comm_size;
  decltype(&MPI_Comm_group) comm_group;
  decltype(&MPI_Group_incl) group_incl;
  decltype(&MPI_Group_free) group_free;
  decltype(&MPI_Comm_create_group) comm_create_group;
  decltype(&MPI_Comm_set_errhandler) comm_set_errhandler;
  decltype(&MPI_Comm_free) comm_free;

  decltype(&MPI_Test) test;
  decltype(&MPI_Cancel) cancel;
  decltype(&MPI_Get_count) get_count;

  decltype(&MPI_Iallreduce) iallreduce;
  decltype(&MPI_Ibcast) ibcast;
  decltype(&MPI_Ireduce) ireduce;
  decltype(&MPI_Ireduce_scatter) ireduce_scatter;
  decltype(&MPI_Iallgatherv) iallgatherv;
  decltype(&MPI_Igatherv) igatherv;
  decltype(&MPI_Iscatterv) iscatterv;
  decltype(&MPI_Ialltoallv) ialltoallv;
  decltype(&MPI_Ibarrier) ibarrier;
  decltype(&MPI_Isend) isend;
  decltype(&MPI_Irecv) irecv;

 private:
  [[nodiscard]] void* find(const char* symbol) const;
  template <class Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(find(symbol));
  }

  void* handle_;
};

}  // namespace lockstep::comm
