// The interface of backends that can tell ranks about each other.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/progress.h"

namespace lockstep::comm {

class ProgressBoard {
 public:
  virtual ~ProgressBoard() = default;
  // Costs one store to memory, so it may be called several times in every step.
  virtual void report(const Progress& progress) = 0;
  // Nothing for a rank of which it cannot know.
  [[nodiscard]] virtual std::optional<Progress> progress_of(int rank) const = 0;

  // Waits until is_done(), which is asked often, and looks after the ranks meanwhile. Throws
  // PeerError, which begins with `what`, if one of them ended, or left with a report that is behind
  // this one's, or at the deadline: that names the ranks which are behind. The group is then
  // unusable.
  virtual void wait_for(const std::string& what, const std::function<bool()>& is_done,
                        Deadline deadline) = 0;
};

}  // namespace lockstep::comm
