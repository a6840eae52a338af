#include "lockstep/comm/hosts_backend.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/no_sigpipe.h"
#include "lockstep/comm/arguments.h"
#include "lockstep/comm/forwarded_work.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/profile.h"
#include "lockstep/comm/queued_work.h"
#include "lockstep/comm/tensor_lists.h"

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

std::vector<at::Tensor> all_of(const std::vector<std::vector<at::Tensor>>& lists,
                               const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all = tensors;
  for (const auto& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

}  // namespace

HostsBackend::HostsBackend(const BackendRequest& request, const HostMap& map,
                           const BackendFactory& gloo)
    : Backend(request.rank, request.size),
      shared_(std::make_shared<Shared>(request, map, gloo)),
      timeout_(request.timeout) {}

void HostsBackend::setTimeout(std::chrono::milliseconds timeout) {
  timeout_ = timeout;
  shared_->links.everybody()->setTimeout(timeout);
}

void HostsBackend::abort() {
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
  const std::string name = what(operation + " #" + std::to_string(++started_));
  shared_->links.throw_if_broken(name);
  const auto limit = start.timeout == c10d::kUnsetTimeout ? timeout_.load() : start.timeout;
  auto event = begin_profile(start.type, start.outputs);
  ++shared_->unfinished;
  // At once, in the queue's thread: what it waits for is the network, and the caller can compute.
  auto job = shared_->queue.start(
      [shared = shared_.get(), run = std::move(run), limit, name, event = std::move(event),
       caller = at::ThreadLocalState()] {
        const Done done(shared->unfinished);
        HostLinks* const links = &shared->links;
        const at::ThreadLocalStateGuard as_caller(caller);  // Inference mode, for one.
        const at::NoGradGuard no_grad;
        const NoSigpipe no_sigpipe;
        links->throw_if_broken(name);
        try {
          run(links->collectives(), Deadline::in(limit));
        } catch (const std::exception& error) {
          links->fail(name, error);
        }
        if (event) {
          event->end();
        }
      },
      shm::WorkQueue::When::kAtOnce);
  return c10::make_intrusive<QueuedWork>(std::shared_ptr<shm::WorkQueue>(shared_, &shared_->queue),
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
    require_separate_elements(tensor, name);
    (void)shm_fold(options.reduceOp, tensor, name);  // Throws for what no rank can do.
    if (!HostCollectives::reduces(tensor, options.reduceOp)) {
      return forward("allreduce", tensors, [&] {
        return shared_->links.everybody()->allreduce_coalesced(tensors, options);
      });
    }
  }
  return start("all_reduce",
               {tensors.size() == 1 ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED,
                options.timeout, tensors},
               [tensors, op = options.reduceOp](const HostCollectives& hosts, Deadline deadline) {
                 for (const auto& tensor : tensors) {
                   const at::Tensor dense = without_gaps(tensor);
                   hosts.all_reduce(dense, op, deadline);
                   if (!dense.is_same(tensor)) {
                     tensor.copy_(dense);
                   }
                 }
               });
}

HostsBackend::WorkPointer HostsBackend::broadcast(Tensors& tensors,
                                                  const c10d::BroadcastOptions& options) {
  const std::string name = what("broadcast");
  const at::Tensor tensor = only(tensors, name);
  require_dense_cpu(tensor, name);
  require_rank(options.rootRank, getSize(), "root", name);
  return start("broadcast", {c10d::OpType::BROADCAST, options.timeout, tensors},
               [tensor, root = static_cast<int>(options.rootRank)](const HostCollectives& hosts,
                                                                   Deadline deadline) {
                 const at::Tensor dense = without_gaps(tensor);
                 hosts.broadcast(dense, root, deadline);
                 if (!dense.is_same(tensor)) {
                   tensor.copy_(dense);
                 }
               });
}

HostsBackend::WorkPointer HostsBackend::barrier(const c10d::BarrierOptions& options) {
  return start("barrier", {c10d::OpType::BARRIER, options.timeout, {}},
               [](const HostCollectives& hosts, Deadline deadline) { hosts.barrier(deadline); });
}

HostsBackend::WorkPointer HostsBackend::forward(const char* operation, const Tensors& tensors,
                                                const std::function<WorkPointer()>& begin) {
  const std::string name = what(std::string(operation) + " #" + std::to_string(++started_));
  shared_->links.throw_if_broken(name);
  for (const auto& tensor : tensors) {
    if (tensor.defined() && tensor.layout() == at::kStrided &&
        (!tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg())) {
      throw UsageError(name +
                       ": a tensor has gaps or is a conjugate, expected a contiguous one; "
                       "between hosts this is Gloo's to do, pass tensor.contiguous()");
    }
  }
  const NoSigpipe no_sigpipe;  // Some of Gloo's operations write in the thread that starts them.
  auto work = as_peer_error(name, begin);
  if (!work) {
    return nullptr;
  }
  shared_->links.waiter().remember(work);
  return c10::make_intrusive<ForwardedWork>(std::shared_ptr<HostLinks>(shared_, &shared_->links),
                                            std::move(work), name);
}

HostsBackend::WorkPointer HostsBackend::allreduce_sparse(Tensors& tensors,
                                                         const c10d::AllreduceOptions& options) {
  return forward("allreduce of sparse tensors", tensors,
                 [&] { return shared_->links.everybody()->allreduce(tensors, options); });
}

HostsBackend::WorkPointer HostsBackend::reduce(Tensors& tensors,
                                               const c10d::ReduceOptions& options) {
  return forward("reduce", tensors,
                 [&] { return shared_->links.everybody()->reduce(tensors, options); });
}

HostsBackend::WorkPointer HostsBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) {
  return forward("allgather", all_of(outputs, inputs),
                 [&] { return shared_->links.everybody()->allgather(outputs, inputs, options); });
}

HostsBackend::WorkPointer HostsBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::AllgatherOptions& options) {
  return forward("allgather_into_tensor", {output, input}, [&] {
    return shared_->links.everybody()->_allgather_base(output, input, options);
  });
}

HostsBackend::WorkPointer HostsBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
  return forward("allgather_coalesced", all_of(outputs, inputs), [&] {
    return shared_->links.everybody()->allgather_coalesced(outputs, inputs, options);
  });
}

HostsBackend::WorkPointer HostsBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return forward("allgather_into_tensor_coalesced", all_of({outputs}, inputs), [&] {
    return shared_->links.everybody()->allgather_into_tensor_coalesced(outputs, inputs, options);
  });
}

HostsBackend::WorkPointer HostsBackend::gather(TensorLists& outputs, Tensors& inputs,
                                               const c10d::GatherOptions& options) {
  return forward("gather", all_of(outputs, inputs),
                 [&] { return shared_->links.everybody()->gather(outputs, inputs, options); });
}

HostsBackend::WorkPointer HostsBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                                const c10d::ScatterOptions& options) {
  return forward("scatter", all_of(inputs, outputs),
                 [&] { return shared_->links.everybody()->scatter(outputs, inputs, options); });
}

HostsBackend::WorkPointer HostsBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                       const c10d::ReduceScatterOptions& options) {
  return forward("reduce_scatter", all_of(inputs, outputs), [&] {
    return shared_->links.everybody()->reduce_scatter(outputs, inputs, options);
  });
}

HostsBackend::WorkPointer HostsBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return forward("reduce_scatter_tensor", {output, input}, [&] {
    return shared_->links.everybody()->_reduce_scatter_base(output, input, options);
  });
}

HostsBackend::WorkPointer HostsBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return forward("reduce_scatter_tensor_coalesced", all_of({outputs}, inputs), [&] {
    return shared_->links.everybody()->reduce_scatter_tensor_coalesced(outputs, inputs, options);
  });
}

HostsBackend::WorkPointer HostsBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                      std::vector<int64_t>& output_sizes,
                                                      std::vector<int64_t>& input_sizes,
                                                      const c10d::AllToAllOptions& options) {
  return forward("all_to_all", {output, input}, [&] {
    return shared_->links.everybody()->alltoall_base(output, input, output_sizes, input_sizes,
                                                     options);
  });
}

HostsBackend::WorkPointer HostsBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllToAllOptions& options) {
  return forward("all_to_all", all_of({outputs}, inputs),
                 [&] { return shared_->links.everybody()->alltoall(outputs, inputs, options); });
}

HostsBackend::WorkPointer HostsBackend::send(Tensors& tensors, int destination, int tag) {
  return forward("send", tensors,
                 [&] { return shared_->links.everybody()->send(tensors, destination, tag); });
}

HostsBackend::WorkPointer HostsBackend::recv(Tensors& tensors, int source, int tag) {
  return forward("recv", tensors,
                 [&] { return shared_->links.everybody()->recv(tensors, source, tag); });
}

HostsBackend::WorkPointer HostsBackend::recvAnysource(Tensors& tensors, int tag) {
  return forward("recv", tensors,
                 [&] { return shared_->links.everybody()->recvAnysource(tensors, tag); });
}

void HostsBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const std::string name = what("monitored_barrier");
  shared_->links.throw_if_broken(name);
  const NoSigpipe no_sigpipe;  // As in forward().
  as_peer_error(name,
                [&] { shared_->links.everybody()->monitoredBarrier(options, wait_all_ranks); });
}

}  // namespace lockstep::comm
