// Runs a test body in real processes, one per rank.
//
// With the backend mpi they are mpirun's, which all run the same tests: mpi_test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"

namespace lockstep::testing {

// "lockstep" with the ranks on two hosts: the first half of them, and the rest.
inline constexpr const char* kTwoHosts = "two_hosts";

// What tests for all backends run on.
inline std::vector<const char*> backends() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr
             ? std::vector<const char*>{"mpi"}
             : std::vector<const char*>{"gloo", "shm", kTwoHosts};
}

// Without Gloo, which is LibTorch's.
inline std::vector<const char*> own_backends() {
  auto names = backends();
  std::erase(names, std::string("gloo"));
  return names;
}

// A group of mpirun's first ranks for each test, in one job for all tests: MPI starts once.
inline void run_under_mpirun(int world_size, const std::function<void(Group&)>& body) {
  static const Group job =
      init_process_group({.backend = "mpi", .timeout = std::chrono::seconds(60)});
  std::vector<int> first(static_cast<std::size_t>(world_size));
  std::iota(first.begin(), first.end(), 0);
  Group world = job.new_group(first);
  if (world.is_member()) {
    body(world);
  }
}

// compute-sanitizer starts threads in a process, and spawn() refuses one that has some. So with
// LOCKSTEP_TEST_IN_PROCESS=1 a rank that is alone needs no process of its own.
inline bool runs_in_this_process(int world_size) {
  return world_size == 1 && std::getenv("LOCKSTEP_TEST_IN_PROCESS") != nullptr;
}

// A failed expectation in a rank becomes a failure of the test, with that rank's number.
inline void run_ranks(int world_size, const std::function<void(Group&)>& body,
                      const std::string& backend = "") {
  if (backend == "mpi") {
    run_under_mpirun(world_size, body);
    return;
  }
  const auto run_rank = [&](int rank) {
    if (backend == kTwoHosts) {
      ::setenv("LOCKSTEP_HOST_ID", rank < (world_size + 1) / 2 ? "here" : "there", 1);
    }
    Group world = init_process_group({.backend = backend == kTwoHosts ? "lockstep" : backend,
                                      .timeout = std::chrono::seconds(60)});
    body(world);
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed, see above");
    }
  };
  if (runs_in_this_process(world_size)) {
    EXPECT_NO_THROW(run_rank(0));
  } else {
    EXPECT_NO_THROW(spawn(world_size, run_rank));
  }
}

// "lockstep" with so many ranks on each of as many hosts, numbered host by host.
inline void run_on_hosts(const std::vector<int>& ranks_on_hosts,
                         const std::function<void(Group&)>& body) {
  std::vector<int> host_of;
  for (std::size_t host = 0; host < ranks_on_hosts.size(); ++host) {
    host_of.insert(host_of.end(), static_cast<std::size_t>(ranks_on_hosts[host]),
                   static_cast<int>(host));
  }
  EXPECT_NO_THROW(spawn(static_cast<int>(host_of.size()), [&](int rank) {
    const auto host = "host" + std::to_string(host_of[static_cast<std::size_t>(rank)]);
    ::setenv("LOCKSTEP_HOST_ID", host.c_str(), 1);
    Group world = init_process_group({.backend = "lockstep", .timeout = std::chrono::seconds(60)});
    body(world);
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed, see above");
    }
  }));
}

inline void on_two_mpi_ranks(const std::function<void(Group&)>& body) { run_ranks(2, body, "mpi"); }

}  // namespace lockstep::testing
