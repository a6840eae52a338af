// The smallest honest distributed program: every rank contributes a tensor, all get the sum.
//
//   lockstep run --nproc-per-node 2 build/bin/examples/all_reduce
//   build/bin/examples/all_reduce                                  # alone: a world of one
//   build/bin/examples/all_reduce tcp://10.0.0.1:29500 RANK WORLD_SIZE
#include <ATen/ops/full.h>

#include <cstdio>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"

int main(int argc, char** argv) try {
  lockstep::InitOptions options;
  if (argc == 4) {
    options.init_method = argv[1];
    options.rank = std::atoi(argv[2]);
    options.world_size = std::atoi(argv[3]);
  }
  auto world = lockstep::init_process_group(options);

  auto tensor = at::full({4}, static_cast<float>(world.rank() + 1));
  world.all_reduce(tensor).wait();

  std::printf("%s: the sum of 1..%d is %g\n", world.description().c_str(), world.size(),
              tensor[0].item<float>());
} catch (const lockstep::Error& error) {
  std::fprintf(stderr, "all_reduce: %s\n", error.what());
  return 1;
}
