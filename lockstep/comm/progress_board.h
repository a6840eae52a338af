// What backends offer that can tell the ranks of each other's progress.
#pragma once

#include "lockstep/shm/progress.h"

namespace lockstep::comm {

class ProgressBoard {
 public:
  virtual ~ProgressBoard() = default;
  // Costs a store to memory: to be called several times in every step.
  virtual void report(const Progress& progress) = 0;
  [[nodiscard]] virtual Progress progress_of(int rank) const = 0;
};

}  // namespace lockstep::comm
