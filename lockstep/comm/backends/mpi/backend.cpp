// The backend itself: how its group is formed and its operations start, and messages.
#include "lockstep/comm/backends/mpi/backend.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/backends/mpi/work.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {
namespace {

std::string who(const BackendRequest& request) {
  return "backend 'mpi' on rank " + std::to_string(request.rank) + " of " +
         std::to_string(request.size);
}

void require_ranks(int ranks, const BackendRequest& request) {
  if (ranks < request.size) {
    throw UsageError(who(request) + ": MPI_COMM_WORLD has " + counted(ranks, "rank") +
                     ", expected at least " + std::to_string(request.size) +
                     "; start it with mpirun -n " + std::to_string(request.size) + " PROGRAM");
  }
}

MpiProcess& join(const BackendRequest& request) {
  // Reported before MPI is started: MPI takes a process that mpirun did not start for a job of one.
  if (const auto ranks = MpiProcess::ranks_started()) {
    require_ranks(*ranks, request);
  }
  auto& process = MpiProcess::get(Deadline::in(request.connect_timeout));
  require_ranks(process.size(), request);
  return process;
}

// The group's rank 0 chooses the tag: a number that it has not used for a while.
std::shared_ptr<MpiGroup> form_group(MpiProcess& process, const BackendRequest& request) {
  static std::atomic<int> groups{0};
  constexpr int kTags = 1 << 14;
  const auto deadline = Deadline::in(request.connect_timeout);
  c10d::Store& store = *request.store;
  const auto read = [&](const std::string& key) {
    store.wait({key}, deadline.as_timeout());
    return std::stoi(store.get_to_str(key));
  };
  if (request.rank == 0) {
    store.set("mpi/tag", std::to_string(groups++ % kTags));
  }
  store.set("mpi/" + std::to_string(request.rank), std::to_string(process.rank()));
  std::vector<int> members;
  for (int rank = 0; rank < request.size; ++rank) {
    const int member = read("mpi/" + std::to_string(rank));
    const auto same = std::find(members.begin(), members.end(), member);
    if (same != members.end()) {
      throw UsageError(who(request) + ": ranks " + std::to_string(same - members.begin()) +
                       " and " + std::to_string(rank) + " are both rank " + std::to_string(member) +
                       " of MPI_COMM_WORLD; start all ranks with one mpirun");
    }
    members.push_back(member);
  }
  return process.make_group(members, read("mpi/tag"), deadline);
}

void require_tag(int tag, const std::string& what) {
  if (tag < 0) {
    throw UsageError(what + ": the tag is " + std::to_string(tag) + ", expected 0 or more");
  }
}

}  // namespace

MpiBackend::MpiBackend(const BackendRequest& request)
    : CpuBackend(request, "mpi", {}),
      process_(join(request)),
      group_(form_group(process_, request)) {}

void MpiBackend::abort() {
  process_.engine().break_up(*group_, "it was aborted on rank " + std::to_string(getRank()));
}

WorkPointer MpiBackend::run(Call call, MpiCall mpi_call) {
  if (!mpi_call.is_message) {  // Only two ranks know of a message: the others could not count it.
    call.what = what(std::string(call.operation) + " #" + std::to_string(next_number()));
  }
  mpi_call.what = std::move(call.what);
  mpi_call.deadline = Deadline::in(call.timeout);
  if (mpi_call.finish) {
    // The thread that sees the end may do what this one may (inference mode).
    mpi_call.finish = [finish = std::move(mpi_call.finish),
                       state = at::ThreadLocalState()](const MPI_Status& status) {
      const at::ThreadLocalStateGuard caller(state);
      const at::NoGradGuard no_grad;
      finish(status);
    };
  }
  auto operation = std::make_shared<MpiOperation>(group_, std::move(mpi_call));
  process_.engine().start(operation);
  return c10::make_intrusive<MpiWork>(process_.engine(), std::move(operation), getRank(), call.type,
                                      std::move(call.outputs));
}

WorkPointer MpiBackend::start_send(Call call, const at::Tensor& tensor, int destination, int tag) {
  require_tag(tag, call.what);
  const at::Tensor buffer = travelling(tensor, tensor.scalar_type());
  const int count = mpi_count(buffer.numel(), call.what);
  MpiCall mpi_call{.is_message = true};
  mpi_call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    return mpi.isend(buffer.data_ptr(), count, mpi_unit(mpi, buffer), destination, tag, comm,
                     request);
  });
  return run(std::move(call), std::move(mpi_call));
}

WorkPointer MpiBackend::start_receive(Call call, const at::Tensor& tensor,
                                      std::optional<int> source, int tag) {
  require_tag(tag, call.what);
  const at::Tensor buffer = travelling(tensor, tensor.scalar_type());
  const int count = mpi_count(buffer.numel(), call.what);
  const MpiLibrary& library = process_.mpi();
  MpiCall mpi_call{.is_message = true, .is_receive = true};
  mpi_call.begins.push_back([=, from = source.value_or(MPI_ANY_SOURCE)](
                                const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    return mpi.irecv(buffer.data_ptr(), count, mpi_unit(mpi, buffer), from, tag, comm, request);
  });
  mpi_call.finish = [&library, name = call.what, tensor, buffer, count](const MPI_Status& status) {
    int received = 0;
    library.get_count(&status, mpi_unit(library, buffer), &received);
    if (received != count) {
      throw UsageError(name + ": the message has " + std::to_string(received) +
                       " elements, expected " + std::to_string(count) + " as in the tensor");
    }
    put_back({buffer}, {tensor});
  };
  return run(std::move(call), std::move(mpi_call));
}

WorkPointer MpiBackend::start_barrier(Call call) {
  MpiCall mpi_call;
  mpi_call.begins.push_back([](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    return mpi.ibarrier(comm, request);
  });
  return run(std::move(call), std::move(mpi_call));
}

void MpiBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool /*wait_all_ranks*/) {
  barrier(options)->wait(kNoTimeout);
}

}  // namespace lockstep::comm

namespace lockstep {

void register_mpi(BackendRegistry& registry) {
  registry.add(
      "mpi", {c10::kCPU},
      [](const BackendRequest& request) { return c10::make_intrusive<comm::MpiBackend>(request); },
      {Capability::kEverything, Capability::kAverages, Capability::kNumbers});
}

}  // namespace lockstep
