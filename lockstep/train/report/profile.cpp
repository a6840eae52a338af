#include "lockstep/train/report/profile.h"

#include <ATen/Context.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <filesystem>
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
    const auto file = folder_ + "/trace.json";
    torch::autograd::profiler::disableProfiler()->save(file);
    std::error_code error;
    if (std::filesystem::file_size(file, error) > 0 && !error) {
      file_ = file;
    } else {  // The profiler tells nobody.
      why_not_ = "the trace of --profile could not be written to '" + file + "'";
      std::filesystem::remove(file + ".tmp", error);
    }
  }
}

}  // namespace lockstep::train
