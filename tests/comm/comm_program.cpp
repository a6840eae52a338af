// Ranks for tests/system/test_meeting.py and test_mpi.py.
//
//   comm_program WAY [BACKEND]   leaves main in that way, with the process group still alive
//   comm_program python          does what tests/system/programs/all_reduce.py does, in its group
//   comm_program until_error TIMEOUT_S ELEMENTS
//                                all_reduces until one fails; prints "ready" after the first, then
//                                how long the last one took and why it failed
//   comm_program count N ELEMENTS   that many all_reduces of so many floats
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"

namespace {

std::optional<lockstep::Group> global;  // What a careless program does.

void leave(const char* way, const char* backend) {
  static std::optional<lockstep::Group> in_function;
  auto world = lockstep::init_process_group({.backend = backend});
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
  } else if (std::strcmp(way, "fail") == 0) {  // One rank does, while the others wait for it.
    if (world.rank() == 1) {
      std::exit(3);
    }
    world.all_reduce(tensor).wait();
  } else if (std::strcmp(way, "late") == 0) {
    if (world.rank() == 1) {
      world.all_reduce(tensor, {.timeout = std::chrono::milliseconds(200)}).wait();
    }
    world.store()->wait({"never"});
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

void until_error(int timeout_s, std::int64_t elements) {
  auto world = lockstep::init_process_group({.timeout = std::chrono::seconds(timeout_s)});
  auto tensor = at::ones({elements});
  auto begin = std::chrono::steady_clock::now();
  try {
    for (int i = 0;; ++i) {
      begin = std::chrono::steady_clock::now();
      world.all_reduce(tensor.fill_(1)).wait();
      if (i == 0) {
        std::printf("ready\n");
        std::fflush(stdout);
      }
    }
  } catch (const lockstep::PeerError& error) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("failed after %.1f s: %s\n", took.count(), error.what());
  }
}

void count(int times, std::int64_t elements) {
  auto world = lockstep::init_process_group({.timeout = std::chrono::seconds(60)});
  auto tensor = at::ones({elements});
  for (int i = 0; i < times; ++i) {
    world.all_reduce(tensor.fill_(1)).wait();
  }
  std::printf("sum %g\n", tensor[0].item<float>());
  world.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "return";
  if (argc == 4) {
    const int number = std::atoi(argv[2]);
    const auto elements = std::atoll(argv[3]);
    std::strcmp(what, "count") == 0 ? count(number, elements) : until_error(number, elements);
    return 0;
  }
  std::strcmp(what, "python") == 0 ? accompany_python() : leave(what, argc > 2 ? argv[2] : "");
  return 0;
}
