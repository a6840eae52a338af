#include "lockstep/comm/backends/mpi/library.h"

#include <dlfcn.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {

namespace {

// Where it was when lockstep was built, or else where the loader finds one of that name.
// RTLD_GLOBAL: Open MPI loads its own parts as plugins, which look for its symbols.
void* load(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  return handle != nullptr
             ? handle
             : ::dlopen(path.substr(path.rfind('/') + 1).c_str(), RTLD_NOW | RTLD_GLOBAL);
}

}  // namespace

MpiLibrary::MpiLibrary() : handle_(load(LOCKSTEP_MPI_LIBRARY)) {
  if (handle_ == nullptr) {
    throw UsageError(
        std::string("backend 'mpi': loading Open MPI's library: ") + ::dlerror() +
        "; install the Open MPI that lockstep was built with, or name another backend");
  }
  find(initialized, "MPI_Initialized");
  find(query_thread, "MPI_Query_thread");
  find(init_thread, "MPI_Init_thread");
  find(finalized, "MPI_Finalized");
  find(finalize, "MPI_Finalize");
  find(error_string, "MPI_Error_string");
  find(comm_rank, "MPI_Comm_rank");
  find(comm_size, "MPI_Comm_size");
  find(comm_group, "MPI_Comm_group");
  find(group_incl, "MPI_Group_incl");
  find(group_free, "MPI_Group_free");
  find(comm_create_group, "MPI_Comm_create_group");
  find(comm_set_errhandler, "MPI_Comm_set_errhandler");
  find(comm_free, "MPI_Comm_free");
  find(test, "MPI_Test");
  find(cancel, "MPI_Cancel");
  find(get_count, "MPI_Get_count");
  find(iallreduce, "MPI_Iallreduce");
  find(ibcast, "MPI_Ibcast");
  find(ireduce, "MPI_Ireduce");
  find(ireduce_scatter, "MPI_Ireduce_scatter");
  find(iallgatherv, "MPI_Iallgatherv");
  find(igatherv, "MPI_Igatherv");
  find(iscatterv, "MPI_Iscatterv");
  find(ialltoallv, "MPI_Ialltoallv");
  find(ibarrier, "MPI_Ibarrier");
  find(isend, "MPI_Isend");
  find(irecv, "MPI_Irecv");
}

void MpiLibrary::check(int code, const std::string& what) const {
  if (code == MPI_SUCCESS) {
    return;
  }
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  error_string(code, text, &length);
  throw PeerError(what + ": MPI says: " + std::string(text, static_cast<std::size_t>(length)));
}

void* MpiLibrary::find(const char* symbol) const {
  void* found = ::dlsym(handle_, symbol);
  if (found == nullptr) {
    throw UsageError(std::string("backend 'mpi': ") + LOCKSTEP_MPI_LIBRARY + " has no " + symbol +
                     "; expected the Open MPI that lockstep was built with");
  }
  return found;
}

}  // namespace lockstep::comm
