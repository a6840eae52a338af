#include "lockstep/device/graphed_step.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/device/stream.h"

namespace lockstep::device {
namespace {

bool alike(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                    [](const at::Tensor& one, const at::Tensor& other) {
                      return one.sizes() == other.sizes() &&
                             one.scalar_type() == other.scalar_type();
                    });
}

thread_local std::uint64_t current_call = 0;
std::atomic<std::uint64_t> last_call = 0;

std::string first_line(const std::exception& error) {
  const auto* torchs = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torchs != nullptr ? torchs->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace

StepRecorder::StepRecorder(const GraphedStepOptions& options) : options_(options) {
  if (options.warmup < 0) {
    throw UsageError("GraphedStep: warmup is " + std::to_string(options.warmup) +
                     ", expected 0 or more");
  }
  if (!options.record) {
    why_eager_ = "recording is switched off";
  } else if (!options.device.is_cuda()) {
    why_eager_ = "the step runs on '" + options.device.str() + "', which is no GPU";
  } else if (const auto why = Graph::why_unavailable(); !why.empty()) {
    throw UsageError("GraphedStep: device is '" + options.device.str() + "', but " + why +
                     "; choose the CPU");
  }
  if (options.device.is_cuda()) {
    if (!options.device.has_index()) {
      options_.device = c10::impl::VirtualGuardImpl(at::kCUDA).getDevice();
    }
    stream_ = side_stream(options_.device);
  }
}

std::uint64_t StepRecorder::call_number() { return current_call; }

void StepRecorder::call(const Work& work, const Tensors& inputs) {
  struct Numbered {
    std::uint64_t before = std::exchange(current_call, ++last_call);
    ~Numbered() { current_call = before; }
  };
  const Numbered numbered;
  work(inputs);
}

StepRecorder::Run StepRecorder::run(const Tensors& inputs, const Work& work) {
  if (!stream_) {
    call(work, inputs);
    return Run::kEager;
  }
  if (graph_ && alike(inputs, inputs_)) {
    replay(inputs);
    return Run::kReplayed;
  }
  if (!graph_ && why_eager_.empty()) {
    note_shapes(inputs);
    if (calls_alike_ > options_.warmup && record(inputs, work)) {
      replay(inputs);
      return Run::kRecorded;
    }
  }
  const OnStream guard(*stream_);
  call(work, on_device(inputs));
  return Run::kEager;
}

StepRecorder::Tensors StepRecorder::on_device(const Tensors& inputs) const {
  Tensors there;
  for (const auto& input : inputs) {
    there.push_back(input.to(options_.device, /*non_blocking=*/true));
  }
  return there;
}

void StepRecorder::note_shapes(const Tensors& inputs) {
  calls_alike_ = alike(inputs, like_) ? calls_alike_ + 1 : 1;
  like_.clear();
  for (const auto& input : inputs) {
    like_.push_back(at::empty_like(input, input.options().device(at::kMeta)));
  }
}

bool StepRecorder::record(const Tensors& inputs, const Work& work) {
  const OnStream guard(*stream_);
  inputs_.clear();
  for (const auto& input : inputs) {
    inputs_.push_back(at::empty_like(input, input.options().device(options_.device)));
  }
  if (options_.before_recording) {
    options_.before_recording();
  }
  try {
    graph_ = std::make_unique<Graph>([&] { call(work, inputs_); });
    return true;
  } catch (const std::exception& error) {
    why_eager_ = first_line(error);
    inputs_.clear();
    TORCH_WARN("GraphedStep: steps run eagerly, because this one cannot be recorded: ", why_eager_);
    return false;
  }
}

void StepRecorder::replay(const Tensors& inputs) {
  const c10::OptionalDeviceGuard guard(options_.device);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs_[i].is_same(inputs[i])) {
      inputs_[i].copy_(inputs[i], /*non_blocking=*/true);
    }
  }
  graph_->replay();
}

void StepRecorder::record_again() {
  if (graph_) {  // Else the calls before the first recording go on.
    graph_.reset();
    calls_alike_ = options_.warmup;
  }
}

}  // namespace lockstep::device
