#include "lockstep/train/report/profile.h"

#include <ATen/Context.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>
#include <utility>

namespace lockstep::train {
namespace {

void begin() {
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  std::set<ActivityType> activities{ActivityType::CPU};
  // A build with CUDA has it without a GPU, too.
  if (at::getNumGPUs() > 0) {
    activities.insert(ActivityType::CUDA);
  }
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
}

}  // namespace

Profile::Profile(bool enabled, std::string folder)
    : enabled_(enabled), folder_(std::move(folder)) {}

Profile::~Profile() {
  if (is_recording_) {
    (void)torch::autograd::profiler::disableProfiler();
  }
}

void Profile::on_step() {
  if (!enabled_) {
    return;
  }
  ++steps_;
  if (steps_ == kFirst) {
    begin();
    is_recording_ = true;
  } else if (steps_ == kLast) {
    finish();
  }
}

void Profile::finish() {
  if (is_recording_) {
    is_recording_ = false;
    file_ = folder_ + "/trace.json";
    torch::autograd::profiler::disableProfiler()->save(file_);
  }
}

}  // namespace lockstep::train
