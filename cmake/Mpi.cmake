# Open MPI, for the mpi backend: LOCKSTEP_WITH_MPI, and LOCKSTEP_MPIRUN for its tests and benchmarks.
#
# Only its header is compiled against; the library is loaded by the programs that ask for the backend
# (lockstep/comm/backends/mpi/library.h says why), from where it was found here.
set(LOCKSTEP_WITH_MPI OFF)
set(LOCKSTEP_MPIRUN "")
find_package(MPI QUIET COMPONENTS C)
if(MPI_C_FOUND)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE version ERROR_QUIET)
  file(REAL_PATH "${MPI_mpi_LIBRARY}" library)
  # Other implementations have other symbols, and their starters other flags.
  if(version MATCHES "Open MPI|OpenRTE" AND library MATCHES "^.*libmpi\\.so\\.[0-9]+")
    set(LOCKSTEP_MPI_LIBRARY "${CMAKE_MATCH_0}")
    set(LOCKSTEP_WITH_MPI ON)
    set(LOCKSTEP_MPIRUN ${MPIEXEC_EXECUTABLE})
  endif()
endif()
