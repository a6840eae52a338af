// Ranks started from inside the program, as with Python's mp.spawn.
#include <ATen/ops/full.h>

#include <cstdio>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"

int main() try {
  lockstep::spawn(2, [](int rank) {
    auto world = lockstep::init_process_group();
    auto tensor = at::full({4}, static_cast<float>(rank));
    world.all_reduce(tensor, {.op = lockstep::ReduceOp::kMax}).wait();
    std::printf("rank %d of %d: the largest rank is %g\n", rank, world.size(),
                tensor[0].item<float>());
  });
} catch (const lockstep::Error& error) {
  std::fprintf(stderr, "spawn: %s\n", error.what());
  return 1;
}
