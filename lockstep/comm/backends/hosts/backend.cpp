#include "lockstep/comm/backends/hosts/backend.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/no_sigpipe.h"
#include "lockstep/comm/backends/support/arguments.h"
#include "lockstep/comm/backends/support/monitored_barrier.h"
#include "lockstep/comm/backends/support/profile.h"
#include "lockstep/comm/backends/support/queued_work.h"
#include "lockstep/comm/backends/support/split.h"
#include "lockstep/comm/backends/support/tensor_bytes.h"
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

bool is_worth_a_thread(const std::vector<at::Tensor>& outputs) {
  std::size_t bytes = 0;
  for (const auto& tensor : outputs) {
    bytes += tensor.layout() == at::kStrided ? tensor.nbytes() : kBytesWorthAThread;
  }
  return bytes >= kBytesWorthAThread;
}

}  // namespace

HostsBackend::HostsBackend(const BackendRequest& request, const HostMap& map,
                           const BackendFactory& gloo)
    : Backend(request.rank, request.size),
      made_by_(request),
      // A fork has none of the threads behind it, and its sockets are its parent's: it keeps all.
      shared_(new Shared(request, map, gloo),
              [](const Shared* shared) {
                if (shared->links.in_owner()) {
                  delete shared;
                }
              }),
      timeout_(request.timeout) {
  made_by_.store = nullptr;
}

c10d::ErrorType HostsBackend::getError() {
  shared_->links.throw_if_fork(what("getError"));
  return shared_->links.is_broken() ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

c10::intrusive_ptr<c10d::Backend::Options> HostsBackend::getBackendOptions() {
  return c10::make_intrusive<Options>(getBackendName(), timeout_.load());
}

c10::intrusive_ptr<c10d::Backend> HostsBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  shared_->links.throw_if_broken(what("split"));
  return split_backend(made_by_, store, ranks, options);
}

void HostsBackend::setTimeout(std::chrono::milliseconds timeout) {
  shared_->links.throw_if_broken(what("setTimeout"));
  timeout_ = timeout;
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

std::string HostsBackend::what(const std::string& operation) const {
  return operation + " on rank " + std::to_string(getRank()) + " of " + std::to_string(getSize());
}

HostsBackend::WorkPointer HostsBackend::start(const std::string& operation, Start start, Run run) {
  shared_->links.throw_if_broken(what(operation));
  const shm::CallName number{.number = ++started_, .kind = kind_of(start.type)};
  const std::string name = what(operation + " #" + std::to_string(number.number));
  const auto limit = start.timeout == c10d::kUnsetTimeout ? timeout_.load() : start.timeout;
  auto event = begin_profile(start.type, start.outputs);
  ++shared_->unfinished;
  // A large one at once, in the queue's thread: what it waits for is the network, and the caller
  // can compute.
  const auto when =
      is_worth_a_thread(start.outputs) ? WorkQueue::When::kAtOnce : WorkQueue::When::kWhenWaitedFor;
  auto job = shared_->queue.start(
      [shared = shared_.get(), run = std::move(run), limit, name, number, event = std::move(event),
       caller = at::ThreadLocalState()] {
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
          links->fail_or_leave(name, std::current_exception());
        }
        if (event) {
          event->end();
        }
      },
      when);
  return c10::make_intrusive<QueuedWork>(std::shared_ptr<WorkQueue>(shared_, &shared_->queue),
                                         std::move(job), getRank(), start.type,
                                         std::move(start.outputs));
}

HostsBackend::WorkPointer HostsBackend::allreduce(Tensors& tensors,
                                                  const c10d::AllreduceOptions& options) {
  const bool sparse = std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.is_sparse();
  });
  if (sparse) {
    return allreduce_sparse(tensors, options);
  }
  c10d::AllreduceCoalescedOptions same;
  same.reduceOp = options.reduceOp;
  same.timeout = options.timeout;
  return allreduce_coalesced(tensors, same);
}

HostsBackend::WorkPointer HostsBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const std::string name = what("all_reduce");
  for (const auto& tensor : tensors) {
    require_dense_cpu(tensor, name);
    (void)shm_fold(options.reduceOp, tensor, name);  // Throws for what no rank can do.
  }
  require_no_overlap({.writes = tensors}, name);
  return start("all_reduce",
               {tensors.size() == 1 ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED,
                options.timeout, tensors},
               [tensors, op = options.reduceOp](const HostCollectives& hosts, Deadline deadline) {
                 const auto dense = without_gaps(tensors);
                 hosts.all_reduce(dense, op, deadline);
                 put_back(dense, tensors);
               });
}

HostsBackend::WorkPointer HostsBackend::allreduce_sparse(Tensors& tensors,
                                                         const c10d::AllreduceOptions& options) {
  const std::string name = what("all_reduce of sparse tensors");
  const at::Tensor tensor = only(tensors, name);
  if (!tensor.defined() || tensor.layout() != at::kSparse || !tensor.device().is_cpu() ||
      options.reduceOp != c10d::ReduceOp::SUM) {
    throw UsageError(name + ": expected a sparse COO tensor on the CPU and the operation sum");
  }
  return start("all_reduce of sparse tensors",
               {c10d::OpType::_ALLREDUCE_SPARSE, options.timeout, {tensor}},
               [tensor](const HostCollectives& hosts, Deadline deadline) {
                 hosts.all_reduce_sparse(tensor, deadline);
               });
}

// As an all_reduce of which the others forget the result: the same bits as there.
HostsBackend::WorkPointer HostsBackend::reduce(Tensors& tensors,
                                               const c10d::ReduceOptions& options) {
  const std::string name = what("reduce");
  const at::Tensor tensor = only(tensors, name);
  require_dense_cpu(tensor, name);
  require_rank(options.rootRank, getSize(), "root", name);
  (void)shm_fold(options.reduceOp, tensor, name);
  const bool is_root = options.rootRank == getRank();
  if (is_root) {
    require_separate_elements(tensor, name);
  }
  return start(
      "reduce", {c10d::OpType::REDUCE, options.timeout, {tensor}},
      [tensor, is_root, op = options.reduceOp](const HostCollectives& hosts, Deadline deadline) {
        const at::Tensor sum = is_root ? without_gaps(tensor) : own_copy(tensor);
        hosts.all_reduce({sum}, op, deadline);
        if (is_root) {
          put_back({sum}, {tensor});
        }
      });
}

// The same of all parts at once, of which each rank keeps its own.
HostsBackend::WorkPointer HostsBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                       const c10d::ReduceScatterOptions& options) {
  const std::string name = what("reduce_scatter");
  if (outputs.size() != inputs.size()) {
    throw UsageError(name + ": there are " + std::to_string(outputs.size()) + " outputs for " +
                     std::to_string(inputs.size()) + " lists of inputs");
  }
  Access access{.writes = outputs};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_dense_cpu(outputs[i], name);
    require_one_per_rank(inputs[i], getSize(), outputs[i], name);
    const auto own = inputs[i][static_cast<std::size_t>(getRank())].numel();
    if (own != outputs[i].numel()) {
      throw UsageError(name + ": the output has " + std::to_string(outputs[i].numel()) +
                       " elements, expected " + std::to_string(own) +
                       " as in the input for this rank");
    }
    (void)shm_fold(options.reduceOp, outputs[i], name);
    access.read(inputs[i], getRank(), outputs[i]);
  }
  require_no_overlap(access, name);
  return start("reduce_scatter", {c10d::OpType::REDUCE_SCATTER, options.timeout, outputs},
               [outputs, inputs, op = options.reduceOp, rank = getRank()](
                   const HostCollectives& hosts, Deadline deadline) {
                 Tensors sums;
                 for (const auto& list : inputs) {
                   sums.push_back(flattened(list));
                 }
                 hosts.all_reduce(sums, op, deadline);
                 for (std::size_t i = 0; i < outputs.size(); ++i) {
                   const auto counts = element_counts(inputs[i]);
                   const auto before =
                       std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
                   unflatten(sums[i].narrow(0, before, outputs[i].numel()), {outputs[i]});
                 }
               });
}

HostsBackend::WorkPointer HostsBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

HostsBackend::WorkPointer HostsBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  const std::string name = what("reduce_scatter_tensor");
  TensorLists lists;
  for (const auto& input : inputs) {
    require_dense_cpu(input, name);
    lists.push_back(parts_of(input, getSize(), name));
  }
  return reduce_scatter(outputs, lists, options);
}

HostsBackend::WorkPointer HostsBackend::barrier(const c10d::BarrierOptions& options) {
  return start("barrier", {c10d::OpType::BARRIER, options.timeout, {}},
               [](const HostCollectives& hosts, Deadline deadline) { hosts.barrier(deadline); });
}

void HostsBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  auto& links = shared_->links;
  links.throw_if_broken(what("monitored_barrier"));
  const auto number = ++started_;
  const std::string name = what("monitored_barrier #" + std::to_string(number));
  auto& mailbox = links.mailbox();
  MonitoredBarrier{
      .rank = getRank(),
      .size = getSize(),
      .number = number,
      .timeout = options.timeout == c10d::kUnsetTimeout ? timeout_.load() : options.timeout,
      .group_timeout = timeout_,
      .wait_all_ranks = wait_all_ranks,
      .send = [&](int to, std::uint64_t tag) { mailbox.send(to, tag, {}, nullptr); },
      .receive = [&](int from, std::uint64_t tag) -> MonitoredBarrier::Wait {
        return [&, message = mailbox.receive(from, tag, {}, nullptr)](Deadline deadline) {
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
