#include "lockstep/parallel/communication.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace lockstep::parallel {

at::Tensor Communication::allocate(std::int64_t elements, at::TensorOptions options) const {
  const auto device = options.device();
  const auto backend = group_.backend(device.type());
  if (device.is_cpu() && backend->supportsTensorAlloc(device.index())) {
    return backend->allocateTensor(static_cast<long>(elements), options);
  }
  return at::empty({elements}, options);
}

void Communication::start(const GradientBucket& bucket) {
  const auto& contents = bucket.contents();
  if (!contents.defined()) {
    started_.emplace_back();
    return;
  }
  const auto backend = group_.backend(contents.device().type());
  std::vector<at::Tensor> tensors{contents};
  Started started{.work = nullptr, .contents = contents, .at = Clock::now(), .done = nullptr};
  started.work = backend->allreduce(tensors, c10d::AllreduceOptions());
  if (contents.device().is_cpu() && backend->getBackendName() == "gloo") {
    started.done = std::make_shared<std::atomic<Clock::time_point>>();
    started.work->getFuture()->addCallback(
        [done = started.done](c10::ivalue::Future&) { done->store(Clock::now()); });
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
