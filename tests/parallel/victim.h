// Training in which something happens to one rank.
#pragma once

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/parallel/nets.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::testing {

// Calls `act` in each forward.
struct Eventful : torch::nn::Module {
  Eventful() { register_module("net", net); }
  at::Tensor forward(const at::Tensor& input) {
    if (act) {
      act();
    }
    return net->forward(input);
  }
  std::function<void()> act;
  torch::nn::Linear net{4, 2};
};

inline void step(DistributedDataParallel<Eventful>& ddp, const Group& world) {
  ddp.zero_grad();
  ddp(input_of(world.rank())).sum().backward();
}

// Runs `body` on ranks of which one kills itself; the others must end well, unlike with spawn(),
// which ends them when one dies. The victim is reaped last: until then the others can see what
// killed it.
inline void with_victim(int ranks, int victim, const std::function<void(Group&)>& body) {
  const test::TemporaryFolder folder;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < ranks; ++rank) {
    pids.push_back(test::fork_child([&, rank] {
      ::alarm(60);  // A hang is a failure.
      auto world = init_process_group({.backend = "shm",
                                       .init_method = "file://" + folder.file("store"),
                                       .rank = rank,
                                       .world_size = ranks,
                                       .timeout = std::chrono::seconds(30)});
      body(world);
      return ::testing::Test::HasFailure() ? 1 : 0;
    }));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != victim) {
      EXPECT_EQ(test::wait_for(pids[static_cast<std::size_t>(rank)]), 0) << "rank " << rank;
    }
  }
  const int end = test::wait_for(pids[static_cast<std::size_t>(victim)]);
  EXPECT_TRUE(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL) << "status " << end;
}

// What `call` throws, soon, says that this rank was killed. It may be killed only in the meantime.
inline void expect_killed(int rank, const std::string& place, const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(call, ::testing::ThrowsMessage<PeerError>(::testing::AllOf(
                        ::testing::HasSubstr(place),
                        ::testing::HasSubstr("rank " + std::to_string(rank) + " (pid "),
                        ::testing::HasSubstr("SIGKILL"))));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace lockstep::testing
