#include "lockstep/comm/backends/hosts/backend.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/no_sigpipe.h"
#include "lockstep/comm/backends/support/monitored_barrier.h"
#include "lockstep/comm/backends/support/profile.h"
#include "lockstep/comm/backends/support/queued_work.h"
#include "lockstep/comm/backends/support/tensor_lists.h"
#include "lockstep/comm/peer_error.h"

namespace lockstep::comm {

namespace {

class Done {
 public:
  explicit Done(std::atomic<int>& unfinished) : unfinished_(unfinished) {}
  Done(const Done&) = delete;
  Done& operator=(const Done&) = delete;
  ~Done() { --unfinished_; }

 private:
  std::atomic<int>& unfinished_;
};

shm::Kind kind_of(c10d::OpType type) {
  switch (type) {
    case c10d::OpType::BROADCAST:
      return shm::Kind::kBroadcast;
    case c10d::OpType::REDUCE:
      return shm::Kind::kReduce;
    case c10d::OpType::REDUCE_SCATTER:
      return shm::Kind::kReduceScatter;
    case c10d::OpType::ALLGATHER:
    case c10d::OpType::_ALLGATHER_BASE:
    case c10d::OpType::ALLGATHER_COALESCED:
      return shm::Kind::kAllGather;
    case c10d::OpType::GATHER:
      return shm::Kind::kGather;
    case c10d::OpType::SCATTER:
      return shm::Kind::kScatter;
    case c10d::OpType::ALLTOALL:
    case c10d::OpType::ALLTOALL_BASE:
      return shm::Kind::kAllToAll;
    case c10d::OpType::BARRIER:
      return shm::Kind::kBarrier;
    default:
      return shm::Kind::kAllReduce;
  }
}

// Below this a collective is over before another thread has taken it up.
constexpr std::size_t kBytesWorthAThread = std::size_t{16} << 10;

}  // namespace

HostsBackend::HostsBackend(const BackendRequest& request, const HostMap& map,
                           const BackendFactory& gloo)
    : CpuBackend(request, "lockstep", {.sparse_tensors = true, .splits = true}),
      // A fork has none of the threads behind it, and its sockets are its parent's: it keeps all.
      shared_(new Shared(request, map, gloo), [](const Shared* shared) {
        if (shared->links.in_owner()) {
          delete shared;
        }
      }) {}

c10d::ErrorType HostsBackend::getError() {
  shared_->links.throw_if_fork(what("getError"));
  return shared_->links.is_broken() ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

c10::intrusive_ptr<c10d::Backend> HostsBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  shared_->links.throw_if_broken(what("split"));
  return CpuBackend::split(store, ranks, options);
}

void HostsBackend::setTimeout(std::chrono::milliseconds timeout) {
  shared_->links.throw_if_broken(what("setTimeout"));
  CpuBackend::setTimeout(timeout);
}

void HostsBackend::shutdown() {
  if (shared_->links.in_owner()) {
    shared_->links.leave();
  }
}

void HostsBackend::abort() {
  if (!shared_->links.in_owner()) {
    return;
  }
  try {
    shared_->links.fail("abort on rank " + std::to_string(getRank()),
                        PeerError("rank " + std::to_string(getRank()) + " called abort()"));
  } catch (const PeerError&) {  // That is what the others get.
  }
}

void HostsBackend::report(const Progress& progress) {
  if (auto* const inside = shared_->links.inside()) {
    inside->report(progress);
  }
}

std::optional<Progress> HostsBackend::progress_of(int rank) const {
  const auto& map = shared_->links.map();
  const auto* const inside = shared_->links.inside();
  return inside == nullptr || map.host_of(rank) != map.here()
             ? std::nullopt
             : inside->progress_of(map.local_rank_of(rank));
}

void HostsBackend::wait_for(const std::string& what, const std::function<bool()>& is_done,
                            Deadline deadline) {
  shared_->links.wait_for(what, is_done, deadline);
}

WorkPointer HostsBackend::enqueue(Call call, Run run) {
  shared_->links.throw_if_broken(call.what);
  const shm::CallName number{.number = next_number(), .kind = kind_of(call.type)};
  const std::string name = what(std::string(call.operation) + " #" + std::to_string(number.number));
  auto event = begin_profile(call.type, call.inputs);
  ++shared_->unfinished;
  // A large one at once, in the queue's thread: what it waits for is the network, and the caller
  // can compute.
  const auto when = bytes_of(call.outputs, kBytesWorthAThread) >= kBytesWorthAThread
                        ? WorkQueue::When::kAtOnce
                        : WorkQueue::When::kWhenWaitedFor;
  auto job = shared_->queue.start(
      [shared = shared_.get(), run = std::move(run), limit = call.timeout, name, number,
       event = std::move(event), caller = at::ThreadLocalState()] {
        const Done done(shared->unfinished);
        HostLinks* const links = &shared->links;
        const at::ThreadLocalStateGuard as_caller(caller);  // Inference mode, for one.
        const at::NoGradGuard no_grad;
        const NoSigpipe no_sigpipe;
        links->throw_if_broken(name);
        links->begin(number);
        try {
          run(links->collectives(), Deadline::in(limit));
        } catch (const std::exception&) {
          links->cut_if_left();
          links->fail_or_leave(name, std::current_exception(), HostLinks::During::kCollective);
        }
        if (event) {
          event->end();
        }
      },
      when);
  return c10::make_intrusive<QueuedWork>(std::shared_ptr<WorkQueue>(shared_, &shared_->queue),
                                         std::move(job), getRank(), call.type,
                                         std::move(call.outputs));
}

WorkPointer HostsBackend::start_all_reduce(Call call, const Tensors& tensors,
                                           const c10d::ReduceOp& op) {
  return enqueue(std::move(call), [tensors, op](const HostCollectives& hosts, Deadline deadline) {
    const auto dense = without_gaps(tensors);
    hosts.all_reduce(dense, op, deadline);
    put_back(dense, tensors);
  });
}

WorkPointer HostsBackend::start_sparse_all_reduce(Call call, const at::Tensor& tensor) {
  return enqueue(std::move(call), [tensor](const HostCollectives& hosts, Deadline deadline) {
    hosts.all_reduce_sparse(tensor, deadline);
  });
}

// As an all_reduce of which the others forget the result: the same bits as there.
WorkPointer HostsBackend::start_reduce(Call call, const at::Tensor& tensor,
                                       const c10d::ReduceOp& op, int root) {
  return enqueue(std::move(call), [tensor, op, is_root = root == getRank()](
                                      const HostCollectives& hosts, Deadline deadline) {
    const at::Tensor sum = is_root ? without_gaps(tensor) : own_copy(tensor);
    hosts.all_reduce({sum}, op, deadline);
    if (is_root) {
      put_back({sum}, {tensor});
    }
  });
}

// The same of all parts at once, of which each rank keeps its own.
WorkPointer HostsBackend::start_reduce_scatter(Call call, const Tensors& outputs,
                                               const TensorLists& inputs,
                                               const c10d::ReduceOp& op) {
  return enqueue(std::move(call), [outputs, inputs, op, rank = getRank()](
                                      const HostCollectives& hosts, Deadline deadline) {
    Tensors sums;
    for (const auto& list : inputs) {
      sums.push_back(flattened(list));
    }
    hosts.all_reduce(sums, op, deadline);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto counts = element_counts(inputs[i]);
      const auto before = std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
      unflatten(sums[i].narrow(0, before, outputs[i].numel()), {outputs[i]});
    }
  });
}

WorkPointer HostsBackend::start_barrier(Call call) {
  return enqueue(std::move(call),
                 [](const HostCollectives& hosts, Deadline deadline) { hosts.barrier(deadline); });
}

void HostsBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  auto& links = shared_->links;
  links.throw_if_broken(what("monitored_barrier"));
  const auto number = next_number();
  const std::string name = what("monitored_barrier #" + std::to_string(number));
  auto& mailbox = links.mailbox();
  MonitoredBarrier{.rank = getRank(),
                   .size = getSize(),
                   .number = number,
                   .timeout = timeout_or(options.timeout),
                   .group_timeout = timeout_or(c10d::kUnsetTimeout),
                   .wait_all_ranks = wait_all_ranks,
                   .send = [&](int to, std::uint64_t tag) { mailbox.send(to, tag, {}, nullptr); },
                   .receive = [&](int from, std::uint64_t tag) -> MonitoredBarrier::Wait {
                     return
                         [&, message = mailbox.receive(from, tag, {}, nullptr)](Deadline deadline) {
                           try {
                             links.await(*message, deadline);
                           } catch (const PeerError&) {
                             if (getRank() == 0) {
                               throw;  // It says itself who is missing.
                             }
                             links.fail_or_leave(name, std::current_exception());
                           }
                         };
                   },
                   .break_up =
                       [&](const std::string& reason) {
                         links.fail_or_leave(name, std::make_exception_ptr(PeerError(reason)));
                       }}
      .run();
}

}  // namespace lockstep::comm
