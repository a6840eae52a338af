// Ranks for tests/system/test_meeting.py.
//
//   comm_program WAY      leaves main in that way, with the process group still alive
//   comm_program python   does what tests/system/programs/all_reduce.py does, in the same group
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "lockstep/comm/init_process_group.h"

namespace {

std::optional<lockstep::Group> global;  // What a careless program does.

void leave(const char* way) {
  static std::optional<lockstep::Group> in_function;
  auto world = lockstep::init_process_group();
  auto tensor = at::ones({1000});
  world.all_reduce(tensor).wait();
  if (std::strcmp(way, "exit") == 0) {
    std::exit(0);  // No destructor of a local runs.
  } else if (std::strcmp(way, "quick_exit") == 0) {
    std::quick_exit(0);
  } else if (std::strcmp(way, "global") == 0) {
    global = world;
  } else if (std::strcmp(way, "static") == 0) {
    in_function = world;
  } else if (std::strcmp(way, "leak") == 0) {
    new lockstep::Group(world);
  } else if (std::strcmp(way, "pending") == 0) {
    static std::vector<lockstep::Work> works;
    works.push_back(world.all_reduce(tensor));  // Started, never awaited.
  } else if (std::strcmp(way, "pending_exit") == 0) {
    (void)world.all_reduce(tensor);
    std::exit(0);
  }
}

void accompany_python() {
  auto world = lockstep::init_process_group({.backend = "gloo"});
  auto tensor = at::full({4}, static_cast<float>(world.rank() + 1));
  world.all_reduce(tensor).wait();
  std::printf("rank %d of %d: the sum is %g\n", world.rank(), world.size(),
              tensor[0].item<float>());
  world.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "return";
  std::strcmp(what, "python") == 0 ? accompany_python() : leave(what);
  return 0;
}
