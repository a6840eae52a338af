#include "lockstep/comm/wait_for.h"

#include <c10/core/Event.h>

#include "lockstep/base/ask.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/group_state.h"
#include "lockstep/comm/progress_board.h"
#include "lockstep/device/graph.h"
#include "lockstep/device/stream.h"

namespace lockstep {

void comm::wait_alone(const std::string& what, const std::function<bool()>& is_done,
                      const Deadline& deadline) {
  if (!ask_for(deadline.remaining(), is_done)) {
    throw PeerError(what + ": timed out: not done after " + to_text(deadline.total()) +
                        ", and this backend cannot tell which rank is behind; see the logs of the "
                        "other ranks, or raise the timeout if they are only slow",
                    PeerError::Cause::kLate);
  }
}

void Group::wait_for(const std::string& what, const std::function<bool()>& is_done,
                     const CollectiveOptions& options) const {
  const std::string place = what + " on " + state_->who();
  if (state_->closed) {
    throw UsageError(place + ": the group was destroyed; make a new one");
  }
  const auto limit = options.timeout.value_or(timeout());
  comm::require_positive(place, limit);
  state_->wait_for(place, is_done, Deadline::in(limit));
}

void Group::State::wait_for(const std::string& place, const std::function<bool()>& is_done,
                            Deadline deadline) {
  try {
    if (progress != nullptr) {
      progress->wait_for(place, is_done, deadline);
    } else {
      comm::wait_alone(place, is_done, deadline);
    }
  } catch (const PeerError&) {
    broken = true;
    throw;
  }
}

void Group::synchronize(at::Device device) const {
  if (device.is_cpu()) {
    return;
  }
  if (device::Graph::is_stream_recorded()) {
    throw UsageError("synchronize on " + state_->who() +
                     ": a step that waits for the GPU cannot be recorded");
  }
  c10::Event end(device.type());
  end.record(device::current_stream(device));
  if (size() == 1) {  // It waits for nobody.
    end.synchronize();
  } else {
    wait_for("the work of " + device.str(), [&] { return end.query(); });
  }
}

}  // namespace lockstep
