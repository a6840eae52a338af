#include "lockstep/comm/backends/shm/backend.h"

#include <ATen/Context.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <c10/util/Logging.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/comm/backends/shm/gpu_order.h"
#include "lockstep/comm/backends/support/arguments.h"
#include "lockstep/comm/backends/support/finished_work.h"
#include "lockstep/comm/backends/support/profile.h"
#include "lockstep/comm/backends/support/queued_work.h"
#include "lockstep/comm/backends/support/split.h"
#include "lockstep/comm/backends/support/store_board.h"
#include "lockstep/device/graph.h"

namespace lockstep::comm {
namespace {

using Use = Packed::Use;

// A smaller collective is over before another thread could start it.
constexpr std::size_t kBackgroundBytes = std::size_t{256} << 10;

std::unique_ptr<shm::Team> join_team(const BackendRequest& request, std::vector<int> numbers) {
  StoreBoard board(request.store);
  return shm::Team::join(request.rank, request.size, board, Deadline::in(request.connect_timeout),
                         {.numbers = std::move(numbers),
                          .notice = [](const std::string& text) { LOG(WARNING) << text; }});
}

std::size_t bytes_of(const std::vector<at::Tensor>& tensors) {
  return std::accumulate(
      tensors.begin(), tensors.end(), std::size_t{0},
      [](std::size_t sum, const at::Tensor& tensor) {
        return sum + (tensor.layout() == at::kStrided ? tensor.nbytes() : kBackgroundBytes);
      });
}

// The thread that runs a collective may have to copy into a tensor with gaps, for which it needs
// the caller's permissions (inference mode), or to report to the caller's profiler. Otherwise this
// is not needed, and it takes a microsecond.
std::optional<at::ThreadLocalState> state_for(const std::vector<at::Tensor>& outputs,
                                              bool profiled) {
  const bool copies = std::any_of(outputs.begin(), outputs.end(), [](const at::Tensor& tensor) {
    return tensor.layout() != at::kStrided || !tensor.is_contiguous();
  });
  return copies || profiled ? std::optional<at::ThreadLocalState>(at::ThreadLocalState())
                            : std::nullopt;
}

// A failure on this rank alone leaves it out of step with the others, so nothing may follow.
template <class Function>
void run_or_break(shm::Team& team, Function run) {
  try {
    run();
  } catch (const PeerError&) {
    throw;
  } catch (const std::exception& error) {
    team.watch().break_up(shm::Watch::Reason::kAborted,
                          team.what() + ": this rank failed in it: " + error.what());
    throw;
  }
}

}  // namespace

ShmBackend::ShmBackend(const BackendRequest& request, std::vector<int> numbers)
    : Backend(request.rank, request.size),
      made_by_(request),
      group_(std::make_shared<ShmGroup>(join_team(request, std::move(numbers)))),
      timeout_(request.timeout),
      core_to_spare_(usable_cores() > request.size) {
  made_by_.store = nullptr;
}

void ShmBackend::shutdown() { group_->team->watch().leave(); }

void ShmBackend::break_up(const std::string& reason) {
  group_->team->watch().break_up(shm::Watch::Reason::kAborted, reason);
}

c10d::ErrorType ShmBackend::getError() {
  try {
    group_->team->watch().throw_if_broken();
    return c10d::ErrorType::SUCCESS;
  } catch (const PeerError&) {
    return c10d::ErrorType::COMM_ERROR;
  }
}

c10::intrusive_ptr<c10d::Backend::Options> ShmBackend::getBackendOptions() {
  return c10::make_intrusive<Options>(getBackendName(), timeout_.load());
}

c10::intrusive_ptr<c10d::Backend> ShmBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const std::vector<int>& ranks,
                                                    const c10::intrusive_ptr<Options>& options) {
  return split_backend(made_by_, store, ranks, options);
}

bool ShmBackend::supportsTensorAlloc(c10::DeviceIndex /*device*/) { return true; }

at::Tensor ShmBackend::allocateTensor(long size, at::TensorOptions options) {
  if (!options.device().is_cpu() || size < 0) {
    throw UsageError(what("allocateTensor") + ": " + std::to_string(size) + " elements on " +
                     options.device().str() + ", expected a size on the CPU");
  }
  group_->team->watch().throw_if_broken();
  const auto bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
  auto memory = shm::allocate(group_->team->memory(), getRank(), bytes);
  void* data = memory.get();
  return at::from_blob(data, {size}, [memory = std::move(memory)](void*) {}, options);
}

std::string ShmBackend::what(const char* operation) const {
  return std::string(operation) + " on rank " + std::to_string(getRank()) + " of " +
         std::to_string(getSize());
}

ShmBackend::WorkPointer ShmBackend::start(Start start, Run run) {
  group_->team->watch().throw_if_broken();
  const auto gpu = gpu_of(start.outputs);
  if (gpu && device::Graph::recording() != nullptr) {
    throw UsageError(what("a collective") +
                     ": the host does it, so it cannot be recorded as a CUDA graph; use nccl");
  }
  const shm::CallName name =
      part_of_.value_or(shm::CallName{.number = started_ + 1, .kind = std::nullopt});
  ++started_;
  const auto timeout = start.timeout == c10d::kUnsetTimeout ? timeout_.load() : start.timeout;
  const bool in_background = core_to_spare_ && bytes_of(start.outputs) >= kBackgroundBytes;
  auto event = begin_profile(start.type, start.inputs);
  auto state = state_for(start.outputs, event != nullptr);
  std::function<void()> task = [team = group_->team.get(), run = std::move(run), name, timeout,
                                state = std::move(state), event = std::move(event)] {
    const auto caller = state ? std::optional<at::ThreadLocalStateGuard>(*state) : std::nullopt;
    const at::NoGradGuard no_grad;
    team->call_it(name);
    run_or_break(*team, [&] { run(*team, Deadline::in(timeout)); });
    if (event) {
      event->end();
    }
  };
  if (gpu) {
    task = after_current_stream(*gpu, std::move(task));
  }
  auto job = group_->queue.start(
      std::move(task), in_background ? WorkQueue::When::kAtOnce : WorkQueue::When::kWhenWaitedFor);
  return c10::make_intrusive<QueuedWork>(std::shared_ptr<WorkQueue>(group_, &group_->queue),
                                         std::move(job), getRank(), start.type,
                                         std::move(start.outputs));
}

ShmBackend::WorkPointer ShmBackend::allreduce(Tensors& tensors,
                                              const c10d::AllreduceOptions& options) {
  const std::string name = what("allreduce");
  const at::Tensor tensor = only(tensors, name);
  if (tensor.defined() && tensor.is_sparse()) {
    return allreduce_sparse(tensors, options);
  }
  c10d::AllreduceCoalescedOptions same;
  same.reduceOp = options.reduceOp;
  same.timeout = options.timeout;
  return allreduce_coalesced(tensors, same);
}

ShmBackend::WorkPointer ShmBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const std::string name = what("allreduce");
  std::vector<shm::Fold> folds;
  for (const auto& tensor : tensors) {
    require_dense(tensor, name);
    folds.push_back(shm_fold(options.reduceOp, tensor, name));
  }
  require_no_overlap({.writes = tensors}, name);
  return start({tensors.size() == 1 ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED,
                options.timeout, tensors, tensors},
               [tensors, folds](shm::Team& team, Deadline deadline) {
                 for (std::size_t i = 0; i < tensors.size(); ++i) {
                   const Packed packed(tensors[i], Use::kReadWrite);
                   shm::all_reduce(team, packed.tensor(), folds[i], deadline);
                   packed.write_back();
                 }
               });
}

ShmBackend::WorkPointer ShmBackend::allreduce_sparse(Tensors& tensors,
                                                     const c10d::AllreduceOptions& options) {
  const std::string name = what("allreduce of sparse tensors");
  at::Tensor tensor = only(tensors, name);
  if (!tensor.defined() || tensor.layout() != at::kSparse || !tensor.device().is_cpu() ||
      options.reduceOp != c10d::ReduceOp::SUM) {
    throw UsageError(name + ": expected a sparse COO tensor on the CPU and the operation sum");
  }
  return start({c10d::OpType::_ALLREDUCE_SPARSE, options.timeout, {tensor}, tensors},
               [tensor](shm::Team& team, Deadline deadline) {
                 const at::Tensor sum = shm_sparse_sum(team, tensor, deadline);
                 tensor.copy_(sum);
               });
}

ShmBackend::WorkPointer ShmBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const std::string name = what("reduce");
  const at::Tensor tensor = only(tensors, name);
  require_dense(tensor, name);
  require_rank(options.rootRank, getSize(), "root", name);
  if (options.rootRank == getRank()) {
    require_separate_elements(tensor, name);
  }
  const auto fold = shm_fold(options.reduceOp, tensor, name);
  return start({c10d::OpType::REDUCE, options.timeout, {tensor}, tensors},
               [tensor, fold, root = static_cast<int>(options.rootRank)](shm::Team& team,
                                                                         Deadline deadline) {
                 const Packed packed(tensor, Use::kReadWrite);
                 shm::reduce(team, packed.tensor(), fold, root, deadline);
                 if (team.rank() == root) {
                   packed.write_back();
                 }
               });
}

ShmBackend::WorkPointer ShmBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                   const c10d::ReduceScatterOptions& options) {
  const std::string name = what("reduce_scatter");
  if (outputs.size() != inputs.size()) {
    throw UsageError(name + ": there are " + std::to_string(outputs.size()) + " outputs for " +
                     std::to_string(inputs.size()) + " lists of inputs");
  }
  std::vector<shm::Fold> folds;
  Access access{.writes = outputs};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_dense_cpu(outputs[i], name);
    require_one_per_rank(inputs[i], getSize(), outputs[i], name);
    const auto& own = inputs[i][static_cast<std::size_t>(getRank())];
    if (own.numel() != outputs[i].numel()) {
      throw UsageError(name + ": the output has " + std::to_string(outputs[i].numel()) +
                       " elements, expected " + std::to_string(own.numel()) +
                       " as in the input for this rank");
    }
    folds.push_back(shm_fold(options.reduceOp, outputs[i], name));
    access.read(inputs[i], getRank(), outputs[i]);
  }
  require_no_overlap(access, name);
  const auto shown = inputs.empty() ? std::span<const at::Tensor>() : std::span(inputs[0]);
  return start({c10d::OpType::REDUCE_SCATTER, options.timeout, outputs, shown},
               [outputs, inputs, folds](shm::Team& team, Deadline deadline) {
                 for (std::size_t i = 0; i < outputs.size(); ++i) {
                   const Packed result(outputs[i], Use::kWrite);
                   const auto parts = packed(inputs[i], Use::kRead);
                   std::vector<shm::Tensor> tensors;
                   for (const auto& part : parts) {
                     tensors.push_back(part.tensor());
                   }
                   shm::reduce_scatter(team, result.data(), tensors, folds[i], deadline);
                   result.write_back();
                 }
               });
}

ShmBackend::WorkPointer ShmBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

ShmBackend::WorkPointer ShmBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  const std::string name = what("reduce_scatter_tensor");
  TensorLists lists;
  for (const auto& input : inputs) {
    require_dense_cpu(input, name);
    lists.push_back(parts_of(input, getSize(), name));
  }
  return reduce_scatter(outputs, lists, options);
}

ShmBackend::WorkPointer ShmBackend::send(Tensors& tensors, int destination, int tag) {
  const std::string name = what("send");
  const at::Tensor& tensor = only(tensors, name);
  require_dense_cpu(tensor, name);
  require_rank(destination, getSize(), "destination", name);
  group_->team->watch().throw_if_broken();
  const auto event = begin_profile(c10d::OpType::SEND, tensors);
  const Packed packed(tensor, Use::kRead);
  group_->mailbox.send(destination, static_cast<std::uint64_t>(tag), packed.data(), packed.bytes());
  return c10::make_intrusive<FinishedWork>(Tensors{tensor});
}

ShmBackend::WorkPointer ShmBackend::recv(Tensors& tensors, int source, int tag) {
  const std::string name = what("recv");
  const at::Tensor& tensor = only(tensors, name);
  require_dense_cpu(tensor, name);
  require_separate_elements(tensor, name);
  require_rank(source, getSize(), "source", name);
  group_->team->watch().throw_if_broken();
  return c10::make_intrusive<ShmReceive>(group_, tensor, source, tag, timeout_.load());
}

ShmBackend::WorkPointer ShmBackend::recvAnysource(Tensors& tensors, int tag) {
  const std::string name = what("recv");
  const at::Tensor& tensor = only(tensors, name);
  require_dense_cpu(tensor, name);
  require_separate_elements(tensor, name);
  group_->team->watch().throw_if_broken();
  return c10::make_intrusive<ShmReceive>(group_, tensor, shm::kAnySource, tag, timeout_.load());
}

ShmBackend::WorkPointer ShmBackend::barrier(const c10d::BarrierOptions& options) {
  return start({c10d::OpType::BARRIER, options.timeout, {}, {}},
               [](shm::Team& team, Deadline deadline) { shm::barrier(team, deadline); });
}

}  // namespace lockstep::comm

namespace lockstep {

void register_shm(BackendRegistry& registry) {
  registry.add(
      "shm", {c10::kCPU},
      [](const BackendRequest& request) { return c10::make_intrusive<comm::ShmBackend>(request); },
      {Capability::kEverything, Capability::kAverages, Capability::kPremultiplies,
       Capability::kNumbers, Capability::kSharesGpus});
  if (at::getNumGPUs() > 0) {
    registry.allow("shm", c10::kCUDA);
  }
}

}  // namespace lockstep
