#include "lockstep/parallel/buckets/communication.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/base/error.h"
#include "lockstep/device/stream.h"
#include "lockstep/parallel/buckets/hook_reduction.h"

namespace lockstep::parallel {

at::Tensor Communication::allocate(std::int64_t elements, at::TensorOptions options) const {
  const auto device = options.device();
  const auto backend = group_.backend(device.type());
  if (device.is_cpu() && backend->supportsTensorAlloc(device.index())) {
    return backend->allocateTensor(static_cast<long>(elements), options);
  }
  return at::empty({elements}, options);
}

void Communication::use(CommHook hook, const std::vector<Parameter>& parameters) {
  if (!hook || hook_) {
    throw UsageError(hook ? "register_comm_hook: there is a hook already; register one"
                          : "register_comm_hook: the hook is empty, expected a function");
  }
  for (const auto& parameter : parameters) {
    if (parameter.sparse) {
      throw UsageError("register_comm_hook: the gradient of '" + parameter.name +
                       "' is sparse, and hooks get dense ones; make its module without sparse");
    }
  }
  hook_ = std::move(hook);
}

std::unique_ptr<Reduction> Communication::reduction_for(
    const std::vector<Parameter>& parameters, const GradBucket::Position& position) const {
  const auto& first = parameters.front();
  if (!hook_) {
    return Average::over(group_, first.tensor, first.sparse);
  }
  std::vector<at::Tensor> tensors;
  GradBucket::Strides strides;
  for (const auto& parameter : parameters) {
    tensors.push_back(parameter.tensor);
    strides.push_back(parameter.strides.empty() ? strides_of_gradient(parameter.tensor)
                                                : parameter.strides);
  }
  return std::make_unique<HookReduction>(hook_, position, std::move(tensors), std::move(strides));
}

void Communication::require_recordable(const std::vector<Parameter>& parameters) const {
  if (hook_) {
    throw UsageError(
        "a communication hook runs on the host, so the step cannot be recorded; leave the hook "
        "out");
  }
  for (const auto& parameter : parameters) {
    if (!parameter.tensor.is_cuda() || !group_.can(Capability::kRecordable, at::kCUDA)) {
      throw UsageError("the host sums the gradient of '" + parameter.name +
                       "', so the step cannot be recorded; use the backend nccl");
    }
  }
}

// Ordered after the current work of the current stream.
const c10::Stream& Communication::filling_stream(c10::Device device) {
  auto found = streams_.find(device);
  if (found == streams_.end()) {
    found = streams_.emplace(device, device::side_stream(device)).first;
  }
  device::make_wait(found->second, device::current_stream(device));
  return found->second;
}

void Communication::start(GradientBucket& bucket) {
  const auto& contents = bucket.contents();
  if (!contents.defined()) {
    started_.emplace_back();
    return;
  }
  Started started{
      .work = nullptr, .contents = contents, .copied = {}, .at = Clock::now(), .done = nullptr};
  c10::OptionalStreamGuard on_stream;
  if (contents.is_cuda()) {
    on_stream.reset_stream(filling_stream(contents.device()));
  }
  started.work = bucket.reduce();
  started.copied = bucket.take_copied();
  if (contents.device().is_cpu() && !hook_ && group_.can(Capability::kCompletesFutures)) {
    started.done = std::make_shared<std::atomic<Clock::time_point>>();
    started.work->getFuture()->addCallback(
        [done = started.done](c10::ivalue::Future&) { done->store(Clock::now()); });
  }
  started_.push_back(std::move(started));
}

void Communication::start_zeros(GradientBucket& bucket) {
  const auto& like = bucket.contents();
  Started started{
      .work = nullptr, .contents = {}, .copied = {}, .at = Clock::now(), .done = nullptr};
  if (like.defined()) {
    started.contents = allocate(like.numel(), like.options()).zero_();
    started.work = bucket.reduce(started.contents);
  }
  started_.push_back(std::move(started));
}

void Communication::wait_for(std::size_t i) {
  if (!started_[i].work) {
    return;
  }
  const auto start = Clock::now();
  started_[i].work->wait();
  waiting_ += Clock::now() - start;
  auto& contents = started_[i].contents;
  if (contents.is_sparse()) {
    const auto result = started_[i].work->result();
    if (!result.empty() && !result.front().is_same(contents)) {
      contents.copy_(result.front());
    }
  }
}

CommunicationTimes Communication::finish() {
  const CommunicationTimes times{.running = running_time(), .waiting = waiting_};
  started_.clear();
  waiting_ = Seconds(0);
  return times;
}

// Works run one after the other, in the order in which they were started.
Communication::Seconds Communication::running_time() const {
  Seconds total{0};
  Clock::time_point last{};
  for (const auto& started : started_) {
    if (started.done) {
      const auto end = started.done->load();
      const auto begin = std::max(started.at, last);
      if (end > begin) {
        total += end - begin;
        last = end;
      }
    } else if (started.work && started.contents.device().is_cpu()) {
      try {
        total += std::chrono::duration<double, std::milli>(started.work->getDuration());
      } catch (const std::exception&) {  // A backend that does not measure.
      }
    }
  }
  return total;
}

}  // namespace lockstep::parallel
