// Where a run is, and how well it has done so far.
#pragma once

#include <cstdint>

#include "lockstep/checkpoint/value.h"

namespace lockstep::train {

struct Position {
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;  // Steps of this epoch that are done.
  std::int64_t step = 0;           // Counted over all epochs.
  double best_top1 = -1;           // Percent; before the first validation less than any.
  std::int64_t best_epoch = -1;
  std::int64_t stale_epochs = 0;  // Since the best one.
  double lr = 0;                  // The last step's.

  bool operator==(const Position&) const = default;
};

checkpoint::Value to_value(const Position& position);
// `lr` counts where the value has none, as those of older programs. Throws IoError if something
// else is missing.
Position position_from(const checkpoint::Value& value, double lr = 0);

}  // namespace lockstep::train
