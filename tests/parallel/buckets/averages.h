// Averages without other ranks: the sum is what one rank has.
#pragma once

#include <memory>

#include "lockstep/comm/backends/support/finished_work.h"
#include "lockstep/parallel/buckets/reduction.h"

namespace lockstep::testing {

// As for so many ranks. `op`, if there is one, is set to what the sum is asked for.
inline std::unique_ptr<parallel::Reduction> average_of(
    int ranks, parallel::Average::Divide divide = parallel::Average::Divide::kBefore,
    c10d::ReduceOp* op = nullptr) {
  return std::make_unique<parallel::Average>(
      ranks, divide, [op](const at::Tensor& flat, const c10d::ReduceOp& asked) {
        if (op != nullptr) {
          *op = asked;
        }
        return c10::make_intrusive<comm::FinishedWork>(std::vector<at::Tensor>{flat});
      });
}

}  // namespace lockstep::testing
