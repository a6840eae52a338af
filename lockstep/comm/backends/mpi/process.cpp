#include "lockstep/comm/backends/mpi/process.h"

#include <stdlib.h>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

// How long the end waits for ranks that are not finished yet: mpirun takes a rank that leaves early
// for a failure and ends the others. If a rank is dead, mpirun ends this one.
constexpr std::chrono::minutes kLeavePatience{30};
constexpr std::chrono::seconds kLeaveBriefly{1};

}  // namespace

MpiProcess& MpiProcess::get(Deadline deadline) {
  // Never destroyed: groups that outlive main() still ask it whether MPI has ended.
  static MpiProcess* const process = new MpiProcess;
  process->engine_.require_owner("backend 'mpi'");
  static std::mutex opening;
  const std::lock_guard lock(opening);
  // Also where an earlier call gave up waiting for it: open() then ends at once.
  if (!process->is_open_) {
    process->engine_.run_alone("MPI_Init", [] { process->open(); }, deadline);
    process->is_open_ = true;
  }
  return *process;
}

std::optional<int> MpiProcess::ranks_started() {
  const auto environment = Environment::of_this_process();
  if (const auto size = environment.get_int("OMPI_COMM_WORLD_SIZE")) {
    return static_cast<int>(*size);
  }
  const bool by_another = environment.has("PMIX_RANK") || environment.has("PMI_RANK");
  return by_another ? std::nullopt : std::optional<int>(1);
}

MpiProcess::MpiProcess() : engine_(mpi_) {}

void MpiProcess::open() {
  if (size_ > 0) {
    return;
  }
  int started = 0;
  mpi_.check(mpi_.initialized(&started), "MPI_Initialized");
  int level = MPI_THREAD_SINGLE;
  if (started != 0) {
    mpi_.check(mpi_.query_thread(&level), "MPI_Query_thread");
    if (level < MPI_THREAD_MULTIPLE) {
      throw UsageError(
          "backend 'mpi': the program started MPI for one thread; start it with "
          "MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or leave it to lockstep");
    }
  } else {
    mpi_.check(mpi_.init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level),
               "MPI_Init_thread");
    ours_ = true;
    if (level < MPI_THREAD_SERIALIZED) {
      throw UsageError("backend 'mpi': this Open MPI was built for programs with one thread");
    }
  }
  mpi_.check(mpi_.comm_rank(mpi_.world(), &rank_), "MPI_Comm_rank");
  int size = 0;
  mpi_.check(mpi_.comm_size(mpi_.world(), &size), "MPI_Comm_size");
  const auto returns = mpi_.object<MPI_Errhandler>("ompi_mpi_errors_return");
  mpi_.check(mpi_.comm_set_errhandler(mpi_.world(), returns), "MPI_Comm_set_errhandler");
  ::on_exit([](int status, void* self) { static_cast<MpiProcess*>(self)->leave(status); }, this);
  size_ = size;
}

void MpiProcess::leave(int status) {
  if (!engine_.in_owner()) {
    return;  // A fork of the process that is meant.
  }
  const bool well = ours_ && status == 0;
  engine_.close(
      [this, well] {
        if (well) {
          mpi_.finalize();
        }
      },
      Deadline::in(well ? kLeavePatience : kLeaveBriefly));
}

std::shared_ptr<MpiGroup> MpiProcess::make_group(const std::vector<int>& members, int tag,
                                                 Deadline deadline) {
  const std::shared_ptr<MpiGroup> made(new MpiGroup{nullptr, ""},
                                       [this](MpiGroup* group) { free_group(group); });
  const auto task = [this, made, members, tag] {
    MPI_Group all = nullptr;
    MPI_Group some = nullptr;
    mpi_.check(mpi_.comm_group(mpi_.world(), &all), "MPI_Comm_group");
    mpi_.check(mpi_.group_incl(all, static_cast<int>(members.size()), members.data(), &some),
               "MPI_Group_incl");
    MPI_Comm comm = nullptr;
    mpi_.check(mpi_.comm_create_group(mpi_.world(), some, tag, &comm), "MPI_Comm_create_group");
    mpi_.group_free(&some);
    mpi_.group_free(&all);
    mpi_.check(
        mpi_.comm_set_errhandler(comm, mpi_.object<MPI_Errhandler>("ompi_mpi_errors_return")),
        "MPI_Comm_set_errhandler");
    made->comm = comm;
  };
  engine_.run_alone("MPI_Comm_create_group", task, deadline);
  return made;
}

void MpiProcess::free_group(MpiGroup* group) {
  const std::unique_ptr<MpiGroup> owner(group);
  // What is still under way in a broken group keeps its communicator in use.
  if (group->comm == nullptr || !group->broken.empty()) {
    return;
  }
  engine_.run_here([&] {
    int finalized = 0;  // By the program itself, where MPI is its own.
    if (mpi_.finalized(&finalized) == MPI_SUCCESS && finalized == 0) {
      mpi_.comm_free(&group->comm);
    }
  });
}

}  // namespace lockstep::comm
