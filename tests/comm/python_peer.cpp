// A C++ rank that does what tests/system/programs/all_reduce.py does, in the same group.
#include <ATen/ops/full.h>

#include <cstdio>

#include "lockstep/comm/init_process_group.h"

int main() {
  auto world = lockstep::init_process_group();
  auto tensor = at::full({4}, static_cast<float>(world.rank() + 1));
  world.all_reduce(tensor).wait();
  std::printf("rank %d of %d: the sum is %g\n", world.rank(), world.size(), tensor[0].item<float>());
  world.barrier();
}
