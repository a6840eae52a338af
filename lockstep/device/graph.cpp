// Compiled where CUDA is found; graph_missing.cpp stands in elsewhere.
#include "lockstep/device/graph.h"

#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::device {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

thread_local Graph* recording_now = nullptr;

// What all threads record now.
class BeingMade {
 public:
  void add(const std::weak_ptr<Graph::Recorded>& recorded) {
    const std::lock_guard lock(mutex_);
    recordings_.push_back(recorded);
    count_.store(recordings_.size());
  }
  void remove(const std::weak_ptr<Graph::Recorded>& recorded) {
    const std::lock_guard lock(mutex_);
    std::erase_if(recordings_, [&](const auto& one) {
      return !one.owner_before(recorded) && !recorded.owner_before(one);
    });
    count_.store(recordings_.size());
  }
  [[nodiscard]] Graph::Recordings all() {
    if (count_.load() == 0) {  // Every use of a group's backend for GPUs comes by here.
      return {};
    }
    const std::lock_guard lock(mutex_);
    return recordings_;
  }

 private:
  std::mutex mutex_;
  Graph::Recordings recordings_;
  std::atomic<std::size_t> count_ = 0;
};

// A process may end while threads record.
BeingMade& being_made_now() {
  static auto* const all = new BeingMade;  // NOLINT(cppcoreguidelines-owning-memory)
  return *all;
}

class Recording {
 public:
  Recording(Graph* graph, std::weak_ptr<Graph::Recorded> recorded)
      : before_(std::exchange(recording_now, graph)), recorded_(std::move(recorded)) {
    being_made_now().add(recorded_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    being_made_now().remove(recorded_);
    recording_now = before_;
  }

 private:
  Graph* before_;
  std::weak_ptr<Graph::Recorded> recorded_;
};

// Up to 2.14 LibTorch leaves its allocator recording after a capture that was invalidated, and the
// memory lost.
void abandon(at::cuda::CUDAGraph& graph, c10::DeviceIndex device, at::cuda::MempoolId_t pool) {
  try {
    graph.capture_end();
  } catch (const std::exception&) {  // It was invalid; what matters is that it ended.
  }
  graph.reset();
  try {
    allocator::endAllocateToPool(device, pool);
    allocator::releasePool(device, pool);
  } catch (const std::exception&) {  // reset() had done it.
  }
}

// After a capture that was invalidated, the generator of LibTorch 2.11 refuses to work outside of
// one. It leaves it with the end of a capture that succeeds, so there is a small one: another state
// object would not be the one from which earlier graphs draw.
void release_generator() {
  try {
    const auto anything = at::zeros({1}, at::kCUDA);
    at::cuda::CUDAGraph graph;
    graph.capture_begin(at::cuda::graph_pool_handle(), cudaStreamCaptureModeThreadLocal);
    anything.zero_();
    graph.capture_end();
  } catch (const std::exception&) {  // The GPU is lost: the first error stands.
  }
}

}  // namespace

struct Graph::Recorded {
  at::cuda::CUDAGraph graph;
  bool is_made = false;
  std::string ended;  // By what end; empty: it can be replayed.
};

Graph::Graph(const std::function<void()>& work) : recorded_(std::make_shared<Recorded>()) {
  auto& graph = recorded_->graph;
  const auto device = c10::cuda::current_device();
  // What eager steps left behind could not be used by the graph, which has memory of its own.
  c10::cuda::device_synchronize();
  allocator::emptyCache();
  const auto pool = at::cuda::graph_pool_handle();
  // Thread-local: a loader's thread that pins memory would invalidate a global capture.
  graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  try {
    const Recording now(this, recorded_);
    work();
    graph.capture_end();
    recorded_->is_made = true;
  } catch (...) {
    abandon(graph, device, pool);
    release_generator();
    throw;
  }
}

Graph::~Graph() = default;

void Graph::replay() {
  if (!recorded_->ended.empty()) {
    throw UsageError("a recorded step cannot be replayed: it uses " + recorded_->ended +
                     ", which was destroyed; record it anew");
  }
  recorded_->graph.replay();
  for (const auto& each : after_replay_) {
    each();
  }
}

Graph* Graph::recording() { return recording_now; }

bool Graph::is_stream_recorded() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

Graph::Recordings Graph::being_made() { return being_made_now().all(); }

void Graph::end_recordings(const Recordings& recordings, const std::string& what) {
  for (const auto& each : recordings) {
    if (const auto recorded = each.lock(); recorded && recorded->ended.empty()) {
      recorded->ended = what;
      try {
        if (recorded->is_made) {
          recorded->graph.reset();
        }
      } catch (const std::exception&) {  // A GPU that broke before. The others end all the same.
      }
    }
  }
}

std::string Graph::why_unavailable() {
  return c10::cuda::device_count() > 0 ? "" : "there is no GPU";
}

}  // namespace lockstep::device
