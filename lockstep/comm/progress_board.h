// The interface of backends that can tell ranks about each other's progress.
#pragma once

#include "lockstep/base/progress.h"

namespace lockstep::comm {

class ProgressBoard {
 public:
  virtual ~ProgressBoard() = default;
  // Costs one store to memory, so it may be called several times in every step.
  virtual void report(const Progress& progress) = 0;
  [[nodiscard]] virtual Progress progress_of(int rank) const = 0;
};

}  // namespace lockstep::comm
