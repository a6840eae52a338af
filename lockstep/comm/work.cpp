#include "lockstep/comm/work.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/work_state.h"

namespace lockstep {

void Work::wait() {
  if (state_->done) {
    return;
  }
  comm::as_peer_error(state_->what, [&] {
    for (const auto& part : state_->parts) {
      part->wait(state_->timeout);
    }
    if (state_->finish) {
      state_->finish();
      state_->finish = nullptr;
    }
  });
  state_->done = true;
}

bool Work::is_completed() const {
  return state_->done || std::all_of(state_->parts.begin(), state_->parts.end(),
                                     [](const auto& part) { return part->isCompleted(); });
}

c10::intrusive_ptr<c10d::Work> Work::c10d_work() const {
  return state_->parts.empty() ? nullptr : state_->parts.back();
}

}  // namespace lockstep
