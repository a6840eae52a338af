// Runs where there is a GPU; one is enough for a world of one.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "tests/comm/nccl_ranks.h"
#include "tests/comm/ranks.h"
#include "tests/comm/stopped_host.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Nccl, IsTheDefaultForCudaTensorsBesideSharedMemory) {
  testing::run_ranks(1, [](Group& world) {
    EXPECT_THAT(world.description(), ::testing::HasSubstr("cpu:lockstep,cuda:nccl"));
    EXPECT_EQ(world.backend(at::kCUDA)->getBackendName(), "nccl");
    EXPECT_EQ(world.backend(at::kCPU)->getBackendName(), "lockstep");
    EXPECT_TRUE(world.can(Capability::kRecordable, at::kCUDA));
    EXPECT_TRUE(world.can(Capability::kPremultipliesOnGpu, at::kCUDA));
    EXPECT_FALSE(world.can(Capability::kSharesGpus, at::kCUDA));
    EXPECT_EQ(world.device(), at::Device(at::kCUDA, 0));
    EXPECT_FALSE(world.gpu_ids().empty());
  });
}

TEST(Nccl, AGroupThatHasNoBackendForGpusIsOnTheCpu) {
  testing::run_ranks(
      1, [](Group& world) { EXPECT_EQ(world.device(), at::Device(at::kCPU)); }, "shm");
}

TEST(Nccl, RunsEveryCollective) {
  testing::run_ranks(1, [](Group& world) {
    const auto input = at::full({5}, 3.0, at::TensorOptions(world.device()));
    const auto output = at::full({5}, 0.0, at::TensorOptions(world.device()));
    const auto expect_copy = [&](Work work) {
      work.wait();
      EXPECT_TRUE(output.equal(input));
      output.zero_();
    };
    world.all_reduce(input, {.op = ReduceOp::kAvg}).wait();
    world.broadcast(input).wait();
    world.reduce(input).wait();
    EXPECT_EQ(input.sum().item<double>(), 15);
    expect_copy(world.all_gather({output}, input));
    expect_copy(world.gather({output}, input));
    expect_copy(world.scatter(output, {input}));
    expect_copy(world.reduce_scatter(output, {input}));
    expect_copy(world.all_to_all({output}, {input}));
    world.barrier();
  });
}

TEST(Nccl, RanksThatShareAGpuRunCollectives) {
  LOCKSTEP_SHARES_GPUS_OVER_NCCL();
  testing::run_ranks(
      3,
      [](Group& world) {
        EXPECT_EQ(world.device(), at::Device(at::kCUDA, 0));
        const int rank = world.rank();
        const auto full = [&](double value) {
          return at::full({5}, value, at::TensorOptions(world.device()));
        };
        const auto expect_values = [](const std::vector<at::Tensor>& tensors,
                                      const std::vector<double>& values) {
          for (std::size_t i = 0; i < tensors.size(); ++i) {
            EXPECT_TRUE(tensors[i].eq(values[i]).all().item<bool>()) << tensors[i];
          }
        };
        auto tensor = full(rank + 1);
        world.all_reduce(tensor).wait();
        expect_values({tensor}, {6});
        world.all_reduce(tensor = full(rank + 1), {.op = ReduceOp::kAvg}).wait();
        expect_values({tensor}, {2});
        world.broadcast(tensor = full(rank), 2).wait();
        expect_values({tensor}, {2});
        const std::vector<at::Tensor> all{full(0), full(0), full(0)};
        world.all_gather(all, full(rank)).wait();
        expect_values(all, {0, 1, 2});
        world.reduce_scatter(tensor = full(0), {full(1), full(2), full(rank)}).wait();
        expect_values({tensor}, {std::vector<double>{3, 6, 3}[static_cast<std::size_t>(rank)]});
        world.all_to_all(all, {full(rank), full(rank + 10), full(rank + 20)}).wait();
        expect_values(all, {0. + 10 * rank, 1. + 10 * rank, 2. + 10 * rank});
        world.barrier();
        const auto pair = world.new_group({2, 0});
        if (pair.is_member()) {
          pair.all_reduce(tensor = full(rank)).wait();
          expect_values({tensor}, {2});
        }
        world.barrier();
      },
      "nccl");
}

TEST(Nccl, AloneAGroupOfCudaWorksToo) {
  EXPECT_NO_THROW(spawn(1, [](int) {
    auto world = init_process_group({.backend = "nccl", .rank = 0, .world_size = 1});
    const auto tensor = at::full({2}, 1.0, at::TensorOptions(world.device()));
    world.all_reduce(tensor).wait();
    world.barrier();
    if (world.broadcast_bytes("x") != "x") {
      throw std::runtime_error("bytes went wrong");
    }
  }));
}

// Two ranks that both have GPU 0 alone. They cannot use NCCL together, but they can begin to.
void on_two_ranks_of_one_gpu(std::chrono::milliseconds timeout,
                             const std::function<void(Group&)>& body) {
  EXPECT_NO_THROW(spawn(2, [&](int) {
    ::setenv("CUDA_VISIBLE_DEVICES", "0", /*replace=*/1);
    Group world = init_process_group({.backend = "cpu:shm,cuda:nccl", .timeout = timeout});
    body(world);
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed, see above");
    }
  }));
}

TEST(Nccl, ARankWithoutAGpuOfItsOwnIsNamed) {
  on_two_ranks_of_one_gpu(std::chrono::seconds(60), [](Group& world) {
    if (world.rank() == 0) {
      EXPECT_EQ(world.device(), at::Device(at::kCUDA, 0));
    } else {
      EXPECT_THAT([&] { (void)world.device(); },
                  ThrowsMessage<UsageError>(
                      AllOf(HasSubstr("device of rank 1 of 2: local rank 1 has no GPU of its own"),
                            HasSubstr("this host shows 1 and rank 0 has the same one; "
                                      "start at most that many ranks"))));
    }
    world.barrier();
  });
}

void expect_that_one_who_never_comes_is_named(int absent) {
  on_two_ranks_of_one_gpu(std::chrono::seconds(5), [absent](Group& world) {
    if (world.rank() == absent) {
      world.store()->wait({"the other gave up"}, std::chrono::seconds(60));
      return;
    }
    const auto tensor = at::full({2}, 1.0, at::kCUDA);
    EXPECT_THAT([&] { world.all_reduce(tensor).wait(); },
                ThrowsMessage<PeerError>(
                    AllOf(HasSubstr("all_reduce #1 on rank " + std::to_string(world.rank()) +
                                    " of 2: timed out: rank " + std::to_string(absent) +
                                    " did not begin the first collective on cuda within 5 s"),
                          HasSubstr("see the logs of the others, or raise the timeout"))));
    world.store()->set("the other gave up", std::vector<std::uint8_t>{1});
  });
}

TEST(Nccl, AFirstCollectiveThatARankNeverEntersNamesIt) {
  expect_that_one_who_never_comes_is_named(0);
  expect_that_one_who_never_comes_is_named(1);
}

TEST(Nccl, AFirstCollectiveDoesNotWaitForARankThatDied) {
  const test::TemporaryFolder folder;
  const auto rank = [&](int number) {
    return test::fork_child([&folder, number] {
      auto world = init_process_group({.backend = "cpu:shm,cuda:nccl",
                                       .init_method = "file://" + folder.file("store"),
                                       .rank = number,
                                       .world_size = 2,
                                       .timeout = std::chrono::seconds(60)});
      if (number == 1) {
        ::raise(SIGKILL);
      }
      EXPECT_THAT(
          [&] { world.all_reduce(at::full({2}, 1.0, at::kCUDA)).wait(); },
          ThrowsMessage<PeerError>(AllOf(HasSubstr("all_reduce #1 on rank 0 of 2: rank 1 (pid "),
                                         HasSubstr("SIGKILL"))));
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
  };
  const pid_t waits = rank(0);
  const pid_t dies = rank(1);
  EXPECT_EQ(test::wait_for(waits), 0);
  const int killed = test::wait_for(dies);
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL);
}

TEST(Nccl, ASecondWorldBesideSharedMemoryWorksAsTheFirst) {
  EXPECT_NO_THROW(spawn(1, [](int) {
    for (int round = 0; round < 3; ++round) {
      Group world = init_process_group({});
      for (const auto device : {at::kCUDA, at::kCPU}) {
        const auto tensor = at::full({2}, round, at::TensorOptions(device));
        world.all_reduce(tensor).wait();
        if (tensor.sum().item<double>() != 2 * round) {
          throw std::runtime_error("another sum in round " + std::to_string(round));
        }
      }
      world.destroy();
    }
  }));
}

// NCCL's ranks find each other by a key in the store. In a later world that of an earlier one would
// lead them to nobody, and they would wait until the timeout.
TEST(Nccl, RanksOfASecondWorldMeetEachOther) {
  EXPECT_NO_THROW(spawn(2, [](int) {
    ::setenv("CUDA_VISIBLE_DEVICES", "0", /*replace=*/1);
    for (int round = 0; round < 3; ++round) {
      Group world =
          init_process_group({.backend = "cpu:shm,cuda:nccl", .timeout = std::chrono::seconds(60)});
      EXPECT_THAT([&] { world.all_reduce(at::full({2}, 1.0, at::kCUDA)).wait(); },
                  ThrowsMessage<PeerError>(
                      AnyOf(HasSubstr("Duplicate GPU"), HasSubstr("using the same GPU"))))
          << "round " << round;
      world.barrier();
      world.destroy();
    }
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed, see above");
    }
  }));
}

TEST(Nccl, AStoreThatDoesNotAnswerDoesNotHoldDestroyUp) {
  EXPECT_NO_THROW(testing::with_host([](Group world) {
    const testing::StoppedHost host(world);
    if (world.rank() == 0) {
      return;
    }
    ::sleep(3);  // LibTorch's threads have asked the store meanwhile.
    const auto begin = std::chrono::steady_clock::now();
    world.destroy();
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(30)) {
      throw std::runtime_error("leaving took too long");
    }
  }));
}

TEST(Nccl, TwoRanksOnOneGpuAreToldSo) {
  on_two_ranks_of_one_gpu(std::chrono::seconds(60), [](Group& world) {
    const auto tensor = at::full({2}, 1.0, at::kCUDA);
    EXPECT_THAT([&] { world.all_reduce(tensor).wait(); },
                ThrowsMessage<PeerError>(
                    AllOf(HasSubstr("all_reduce #1 on rank " + std::to_string(world.rank()) +
                                    " of 2: NCCL error"),
                          // NCCL's words up to 2.29, and since.
                          AnyOf(HasSubstr("Duplicate GPU"), HasSubstr("using the same GPU")))));
    world.barrier();
  });
}

}  // namespace
}  // namespace lockstep
