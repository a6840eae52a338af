#include "lockstep/comm/backends/shm/backend.h"

#include <ATen/Context.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <c10/util/Logging.h>

#include <algorithm>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/comm/backends/shm/gpu_order.h"
#include "lockstep/comm/backends/shm/store_board.h"
#include "lockstep/comm/backends/support/finished_work.h"
#include "lockstep/comm/backends/support/profile.h"
#include "lockstep/comm/backends/support/queued_work.h"
#include "lockstep/comm/backends/support/tensor_lists.h"
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
    : CpuBackend(request, "shm", {.gpu_tensors = true, .sparse_tensors = true, .splits = true}),
      group_(std::make_shared<ShmGroup>(join_team(request, std::move(numbers)))),
      core_to_spare_(usable_cores() > request.size) {}

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

WorkPointer ShmBackend::enqueue(Call call, Run run) {
  group_->team->watch().throw_if_broken();
  const auto gpu = gpu_of(call.outputs);
  if (gpu && device::Graph::is_stream_recorded()) {
    throw UsageError(what("a collective") +
                     ": the host does it, so it cannot be recorded as a CUDA graph; use nccl");
  }
  const shm::CallName name =
      part_of_.value_or(shm::CallName{.number = next_number(), .kind = std::nullopt});
  const bool in_background =
      core_to_spare_ && bytes_of(call.outputs, kBackgroundBytes) >= kBackgroundBytes;
  auto event = begin_profile(call.type, call.inputs);
  auto state = state_for(call.outputs, event != nullptr);
  std::function<void()> task = [team = group_->team.get(), run = std::move(run), name,
                                timeout = call.timeout, state = std::move(state),
                                event = std::move(event)] {
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
                                         std::move(job), getRank(), call.type,
                                         std::move(call.outputs));
}

WorkPointer ShmBackend::start_all_reduce(Call call, const Tensors& tensors,
                                         const c10d::ReduceOp& op) {
  std::vector<shm::Fold> folds;
  folds.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    folds.push_back(shm_fold(op, tensor, call.what));
  }
  return enqueue(std::move(call), [tensors, folds](shm::Team& team, Deadline deadline) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Packed packed(tensors[i], Use::kReadWrite);
      shm::all_reduce(team, packed.tensor(), folds[i], deadline);
      packed.write_back();
    }
  });
}

WorkPointer ShmBackend::start_sparse_all_reduce(Call call, const at::Tensor& tensor) {
  return enqueue(std::move(call), [tensor](shm::Team& team, Deadline deadline) {
    const at::Tensor sum = shm_sparse_sum(team, tensor, deadline);
    tensor.copy_(sum);
  });
}

WorkPointer ShmBackend::start_reduce(Call call, const at::Tensor& tensor, const c10d::ReduceOp& op,
                                     int root) {
  const auto fold = shm_fold(op, tensor, call.what);
  return enqueue(std::move(call), [tensor, fold, root](shm::Team& team, Deadline deadline) {
    const Packed packed(tensor, Use::kReadWrite);
    shm::reduce(team, packed.tensor(), fold, root, deadline);
    if (team.rank() == root) {
      packed.write_back();
    }
  });
}

WorkPointer ShmBackend::start_reduce_scatter(Call call, const Tensors& outputs,
                                             const TensorLists& inputs, const c10d::ReduceOp& op) {
  std::vector<shm::Fold> folds;
  for (const auto& output : outputs) {
    folds.push_back(shm_fold(op, output, call.what));
  }
  return enqueue(std::move(call), [outputs, inputs, folds](shm::Team& team, Deadline deadline) {
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

WorkPointer ShmBackend::start_broadcast(Call call, const at::Tensor& tensor, int root) {
  return enqueue(std::move(call), [tensor, root](shm::Team& team, Deadline deadline) {
    const bool gives = team.rank() == root;
    const Packed packed(tensor, gives ? Use::kRead : Use::kWrite);
    shm::broadcast(team, packed.tensor(), shm_dtype(tensor.scalar_type()), root, deadline);
    if (!gives) {
      packed.write_back();
    }
  });
}

WorkPointer ShmBackend::start_all_gather(Call call, const TensorLists& outputs,
                                         const Tensors& inputs) {
  return enqueue(std::move(call), [outputs, inputs](shm::Team& team, Deadline deadline) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto results = packed(outputs[i], Use::kWrite);
      shm::all_gather(team, outputs_of(results), Packed(inputs[i], Use::kRead).input(),
                      shm_dtype(inputs[i].scalar_type()), deadline);
      write_back(results);
    }
  });
}

WorkPointer ShmBackend::start_all_gather_into(Call call, const Tensors& outputs,
                                              const Tensors& inputs) {
  return enqueue(std::move(call), [outputs, inputs](shm::Team& team, Deadline deadline) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Packed result(outputs[i], Use::kWrite);
      const Packed input(inputs[i], Use::kRead);
      std::vector<shm::Output> parts;
      for (int rank = 0; rank < team.size(); ++rank) {
        parts.push_back(
            {result.data() + static_cast<std::size_t>(rank) * input.bytes(), input.bytes()});
      }
      shm::all_gather(team, parts, input.input(), shm_dtype(inputs[i].scalar_type()), deadline);
      result.write_back();
    }
  });
}

WorkPointer ShmBackend::start_gather(Call call, const Tensors& outputs, const at::Tensor& input,
                                     int root) {
  return enqueue(std::move(call), [outputs, input, root](shm::Team& team, Deadline deadline) {
    const auto results = packed(outputs, Use::kWrite);
    shm::gather(team, outputs_of(results), Packed(input, Use::kRead).input(),
                shm_dtype(input.scalar_type()), root, deadline);
    write_back(results);
  });
}

WorkPointer ShmBackend::start_scatter(Call call, const at::Tensor& output, const Tensors& inputs,
                                      int root) {
  return enqueue(std::move(call), [output, inputs, root](shm::Team& team, Deadline deadline) {
    const Packed result(output, Use::kWrite);
    const auto given = packed(inputs, Use::kRead);
    shm::scatter(team, result.output(), inputs_of(given), shm_dtype(output.scalar_type()), root,
                 deadline);
    result.write_back();
  });
}

WorkPointer ShmBackend::start_all_to_all(Call call, const Tensors& outputs, const Tensors& inputs) {
  return enqueue(std::move(call), [outputs, inputs](shm::Team& team, Deadline deadline) {
    const auto results = packed(outputs, Use::kWrite);
    const auto given = packed(inputs, Use::kRead);
    shm::all_to_all(team, outputs_of(results), inputs_of(given), shm_dtype(inputs[0].scalar_type()),
                    deadline);
    write_back(results);
  });
}

WorkPointer ShmBackend::start_send(Call call, const at::Tensor& tensor, int destination, int tag) {
  group_->team->watch().throw_if_broken();
  const auto event = begin_profile(call.type, call.inputs);
  const Packed packed(tensor, Use::kRead);
  group_->mailbox.send(destination, static_cast<std::uint64_t>(tag), packed.data(), packed.bytes());
  return c10::make_intrusive<FinishedWork>(std::move(call.outputs));
}

WorkPointer ShmBackend::start_receive(Call call, const at::Tensor& tensor,
                                      std::optional<int> source, int tag) {
  group_->team->watch().throw_if_broken();
  return c10::make_intrusive<ShmReceive>(group_, tensor, source.value_or(shm::kAnySource), tag,
                                         call.timeout);
}

WorkPointer ShmBackend::start_barrier(Call call) {
  return enqueue(std::move(call),
                 [](shm::Team& team, Deadline deadline) { shm::barrier(team, deadline); });
}

}  // namespace lockstep::comm

namespace lockstep {

void register_shm(BackendRegistry& registry) {
  registry.add(
      "shm", {c10::kCPU},
      [](const BackendRequest& request) { return c10::make_intrusive<comm::ShmBackend>(request); },
      {Capability::kEverything, Capability::kAverages, Capability::kPremultiplies,
       Capability::kNumbers, Capability::kSharesGpus, Capability::kWaitsForAllRanks});
  if (at::getNumGPUs() > 0) {
    registry.allow("shm", c10::kCUDA);
  }
}

}  // namespace lockstep
