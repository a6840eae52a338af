// Compiled where CUDA is found; graph_missing.cpp stands in elsewhere.
#include "lockstep/device/graph.h"

#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <exception>
#include <utility>

namespace lockstep::device {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

thread_local Graph* recording_now = nullptr;

class Recording {
 public:
  explicit Recording(Graph* graph) : before_(std::exchange(recording_now, graph)) {}
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() { recording_now = before_; }

 private:
  Graph* before_;
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
};

Graph::Graph(const std::function<void()>& work) : recorded_(std::make_unique<Recorded>()) {
  auto& graph = recorded_->graph;
  const auto device = c10::cuda::current_device();
  // What eager steps left behind could not be used by the graph, which has memory of its own.
  c10::cuda::device_synchronize();
  allocator::emptyCache();
  const auto pool = at::cuda::graph_pool_handle();
  // Thread-local: a loader's thread that pins memory would invalidate a global capture.
  graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  try {
    const Recording now(this);
    work();
    graph.capture_end();
  } catch (...) {
    abandon(graph, device, pool);
    release_generator();
    throw;
  }
}

Graph::~Graph() = default;

void Graph::replay() {
  recorded_->graph.replay();
  for (const auto& each : after_replay_) {
    each();
  }
}

Graph* Graph::recording() { return recording_now; }

bool Graph::is_stream_recorded() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

std::string Graph::why_unavailable() {
  return c10::cuda::device_count() > 0 ? "" : "there is no GPU";
}

}  // namespace lockstep::device
