// The backend itself: how its group is formed and its operations start. The collectives are in
// mpi_reductions.cpp, those that only move data in mpi_moves.cpp.
#include "lockstep/comm/backends/mpi/backend.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/mpi/work.h"
#include "lockstep/comm/backends/support/arguments.h"
#include "lockstep/comm/backends/support/store_board.h"
#include "lockstep/comm/backends/support/tensor_bytes.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {
namespace {

std::string who(const BackendRequest& request) {
  return "backend 'mpi' on rank " + std::to_string(request.rank) + " of " +
         std::to_string(request.size);
}

void require_ranks(int ranks, const BackendRequest& request) {
  if (ranks < request.size) {
    throw UsageError(who(request) + ": MPI_COMM_WORLD has " + std::to_string(ranks) +
                     (ranks == 1 ? " rank" : " ranks") + ", expected at least " +
                     std::to_string(request.size) + "; start it with mpirun -n " +
                     std::to_string(request.size) + " PROGRAM");
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
  StoreBoard board(request.store);
  if (request.rank == 0) {
    board.post("mpi/tag", std::to_string(groups++ % kTags));
  }
  board.post("mpi/" + std::to_string(request.rank), std::to_string(process.rank()));
  std::vector<int> members;
  for (int rank = 0; rank < request.size; ++rank) {
    const int member = std::stoi(board.read("mpi/" + std::to_string(rank), deadline));
    const auto same = std::find(members.begin(), members.end(), member);
    if (same != members.end()) {
      throw UsageError(who(request) + ": ranks " + std::to_string(same - members.begin()) +
                       " and " + std::to_string(rank) + " are both rank " + std::to_string(member) +
                       " of MPI_COMM_WORLD; start all ranks with one mpirun");
    }
    members.push_back(member);
  }
  return process.make_group(members, std::stoi(board.read("mpi/tag", deadline)), deadline);
}

void require_tag(int tag, const std::string& what) {
  if (tag < 0) {
    throw UsageError(what + ": the tag is " + std::to_string(tag) + ", expected 0 or more");
  }
}

}  // namespace

MpiBackend::MpiBackend(const BackendRequest& request)
    : Backend(request.rank, request.size),
      process_(join(request)),
      group_(form_group(process_, request)),
      timeout_(request.timeout) {}

void MpiBackend::abort() {
  process_.engine().break_up(*group_, "it was aborted on rank " + std::to_string(getRank()));
}

std::string MpiBackend::what(const char* operation) const {
  return std::string(operation) + " #" + std::to_string(started_ + 1) + " on rank " +
         std::to_string(getRank()) + " of " + std::to_string(getSize());
}

MpiBackend::WorkPointer MpiBackend::start(Start start, MpiCall call) {
  const auto timeout = start.timeout == c10d::kUnsetTimeout ? timeout_.load() : start.timeout;
  call.deadline = Deadline::in(timeout);
  if (call.finish) {
    // The thread that sees the end may do what this one may (inference mode).
    call.finish = [finish = std::move(call.finish),
                   state = at::ThreadLocalState()](const MPI_Status& status) {
      const at::ThreadLocalStateGuard caller(state);
      const at::NoGradGuard no_grad;
      finish(status);
    };
  }
  auto operation = std::make_shared<MpiOperation>(group_, std::move(call));
  ++started_;
  process_.engine().start(operation);
  return c10::make_intrusive<MpiWork>(process_.engine(), std::move(operation), getRank(),
                                      start.type, std::move(start.outputs));
}

MpiBackend::WorkPointer MpiBackend::send(Tensors& tensors, int destination, int tag) {
  const std::string name = what("send");
  const at::Tensor& tensor = only(tensors, name);
  require_dense_cpu(tensor, name);
  require_rank(destination, getSize(), "destination", name);
  require_tag(tag, name);
  const at::Tensor buffer = travelling(tensor, tensor.scalar_type());
  const int count = mpi_count(buffer.numel(), name);
  MpiCall call{.what = name, .is_message = true};
  call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    return mpi.isend(buffer.data_ptr(), count, mpi_unit(mpi, buffer), destination, tag, comm,
                     request);
  });
  return start({c10d::OpType::SEND, c10d::kUnsetTimeout, {tensor}}, std::move(call));
}

MpiBackend::WorkPointer MpiBackend::recv(Tensors& tensors, int source, int tag) {
  require_rank(source, getSize(), "source", what("recv"));
  return receive(c10d::OpType::RECV, only(tensors, what("recv")), source, tag);
}

MpiBackend::WorkPointer MpiBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(c10d::OpType::RECVANYSOURCE, only(tensors, what("recv")), MPI_ANY_SOURCE, tag);
}

MpiBackend::WorkPointer MpiBackend::receive(c10d::OpType type, const at::Tensor& tensor, int source,
                                            int tag) {
  const std::string name = what("recv");
  require_dense_cpu(tensor, name);
  require_separate_elements(tensor, name);
  require_tag(tag, name);
  const at::Tensor buffer = travelling(tensor, tensor.scalar_type());
  const int count = mpi_count(buffer.numel(), name);
  const MpiLibrary& library = process_.mpi();
  MpiCall call{.what = name, .is_message = true, .is_receive = true};
  call.begins.push_back([=](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    return mpi.irecv(buffer.data_ptr(), count, mpi_unit(mpi, buffer), source, tag, comm, request);
  });
  call.finish = [&library, name, tensor, buffer, count](const MPI_Status& status) {
    int received = 0;
    library.get_count(&status, mpi_unit(library, buffer), &received);
    if (received != count) {
      throw UsageError(name + ": the message has " + std::to_string(received) +
                       " elements, expected " + std::to_string(count) + " as in the tensor");
    }
    if (const auto back = copy_back({buffer}, {tensor})) {
      back();
    }
  };
  return start({type, c10d::kUnsetTimeout, {tensor}}, std::move(call));
}

MpiBackend::WorkPointer MpiBackend::barrier(const c10d::BarrierOptions& options) {
  MpiCall call{.what = what("barrier")};
  call.begins.push_back([](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    return mpi.ibarrier(comm, request);
  });
  return start({c10d::OpType::BARRIER, options.timeout, {}}, std::move(call));
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
      {Capability::kEverything, Capability::kAverages});
}

}  // namespace lockstep
