#include "lockstep/base/error.h"
#include "lockstep/device/graph.h"

namespace lockstep::device {

struct Graph::Recorded {};

Graph::Graph(const std::function<void()>& /*work*/) {
  throw UsageError("Graph: " + why_unavailable());
}

Graph::~Graph() = default;

void Graph::replay() {}

Graph* Graph::recording() { return nullptr; }

bool Graph::is_stream_recorded() { return false; }

Graph::Recordings Graph::being_made() { return {}; }

void Graph::end_recordings(const Recordings& /*recordings*/, const std::string& /*what*/) {}

std::string Graph::why_unavailable() { return "lockstep was built without CUDA"; }

}  // namespace lockstep::device
