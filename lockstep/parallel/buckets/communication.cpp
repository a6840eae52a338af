#include "lockstep/parallel/buckets/communication.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <bit>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/device/stream.h"

namespace lockstep::parallel {
namespace {

// torch.distributed._make_nccl_premul_sum; its C++ name differs between versions.
c10d::ReduceOp sum_times(std::optional<double> factor) {
  c10d::ReduceOp op;
  if (factor) {
    op.op_ = c10d::ReduceOp::PREMUL_SUM;
    op.supplement_ = c10::make_intrusive<c10d::NCCLPreMulSumSupplement>(*factor);
  }
  return op;
}

}  // namespace

at::Tensor Communication::allocate(std::int64_t elements, at::TensorOptions options) const {
  const auto device = options.device();
  const auto backend = group_.backend(device.type());
  if (device.is_cpu() && backend->supportsTensorAlloc(device.index())) {
    return backend->allocateTensor(static_cast<long>(elements), options);
  }
  return at::empty({elements}, options);
}

// On the CPU half-precision products would have to be rounded before they are added. NCCL may fuse
// the product with the sum, which makes no difference if the product is exact.
bool Communication::multiplies(const at::Tensor& like) const {
  if (like.is_cuda()) {
    return std::has_single_bit(static_cast<unsigned>(ranks())) && like.is_floating_point() &&
           group_.can(Capability::kPremultipliesOnGpu, at::kCUDA);
  }
  return like.is_cpu() && (like.scalar_type() == at::kFloat || like.scalar_type() == at::kDouble) &&
         group_.can(Capability::kPremultiplies);
}

bool Communication::is_recordable(const at::Tensor& like) const {
  return like.is_cuda() && group_.can(Capability::kRecordable, at::kCUDA);
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
  const auto backend = group_.backend(contents.device().type());
  std::vector<at::Tensor> tensors{contents};
  Started started{
      .work = nullptr, .contents = contents, .copied = {}, .at = Clock::now(), .done = nullptr};
  c10::OptionalStreamGuard on_stream;
  if (contents.is_cuda()) {
    on_stream.reset_stream(filling_stream(contents.device()));
  }
  c10d::AllreduceOptions options;
  options.reduceOp = sum_times(bucket.factor(ranks()));
  started.copied = bucket.take_copied();
  started.work = backend->allreduce(tensors, options);
  if (contents.device().is_cpu() && group_.can(Capability::kCompletesFutures)) {
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
