#include "lockstep/comm/group.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <thread>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/socket.h"
#include "lockstep/comm/backends/local/backend.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::ThrowsMessage;

// Counts how it is ended.
class EndedBackend : public comm::LocalBackend {
 public:
  struct Ends {
    int aborts = 0;
    int shutdowns = 0;
    bool broken = false;
  };
  explicit EndedBackend(Ends* ends) : ends_(ends) {}
  void abort() override { ++ends_->aborts; }
  void shutdown() override { ++ends_->shutdowns; }
  c10d::ErrorType getError() override {
    return ends_->broken ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
  }

 private:
  Ends* ends_;
};

// Others tell their ranks that this one leaves.
TEST(Group, AnErrorAbortsBackendsThatWouldWait) {
  EndedBackend::Ends ends;
  auto registry = BackendRegistry::built_in();
  const auto make = [&](const BackendRequest&) { return c10::make_intrusive<EndedBackend>(&ends); };
  registry.add("waits", {c10::kCPU}, make, {Capability::kShutdownWaits});
  registry.add("leaves", {c10::kCPU}, make);
  const auto ends_after = [&](const std::string& backend, const std::function<void(Group&)>& body) {
    ends = {};
    try {
      auto world = init_process_group({.backend = backend, .registry = registry});
      body(world);
    } catch (const std::runtime_error&) {
    }
    return std::pair(ends.aborts, ends.shutdowns);
  };
  const auto fail = [](Group&) { throw std::runtime_error("an error"); };
  EXPECT_EQ(ends_after("waits", [](Group&) {}), std::pair(0, 1));
  EXPECT_EQ(ends_after("waits", fail), std::pair(1, 1));
  EXPECT_EQ(ends_after("leaves", fail), std::pair(0, 1));
  const auto destroyed_in_catch = [&](Group& world) {
    try {
      fail(world);
    } catch (const std::runtime_error&) {
      world.destroy();
    }
  };
  EXPECT_EQ(ends_after("waits", destroyed_in_catch), std::pair(1, 1));
  const auto caught_before = [&](Group& world) {
    try {
      fail(world);
    } catch (const std::runtime_error&) {
    }
    ends.broken = true;
  };
  EXPECT_EQ(ends_after("waits", caught_before), std::pair(1, 1));
  // The error is older than the group, which does nothing wrong.
  try {
    throw std::runtime_error("an error");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(ends_after("waits", [](Group&) {}), std::pair(0, 1));
    EXPECT_EQ(ends_after("waits", fail), std::pair(1, 1));
  }
}

std::int64_t sum_of_ones(const Group& group) {
  const auto tensor = at::full({1}, 1, at::kLong);
  group.all_reduce(tensor).wait();
  return tensor.item<std::int64_t>();
}

TEST(NewGroup, MembersAreNumberedInTheGivenOrder) {
  run_ranks(3, [](Group& world) {
    const Group pair = world.new_group({2, 0});
    EXPECT_EQ(pair.size(), 2);
    EXPECT_EQ(pair.rank(), world.rank() == 2 ? 0 : world.rank() == 0 ? 1 : -1);
    EXPECT_EQ(pair.is_member(), world.rank() != 1);
    if (pair.is_member()) {
      EXPECT_EQ(sum_of_ones(pair), 2);
    } else {
      EXPECT_THAT([&] { sum_of_ones(pair); }, ThrowsMessage<UsageError>(HasSubstr("no member")));
    }
    EXPECT_EQ(sum_of_ones(world), 3);
  });
}

TEST(NewGroup, GroupsOfGroupsWork) {
  run_ranks(4, [](Group& world) {
    const Group three = world.new_group({1, 2, 3});
    if (three.is_member()) {
      const Group two = three.new_group({2, 1});  // World ranks 3 and 2.
      EXPECT_EQ(two.rank(), world.rank() == 3 ? 0 : world.rank() == 2 ? 1 : -1);
      if (two.is_member()) {
        EXPECT_EQ(sum_of_ones(two), 2);
      }
      EXPECT_EQ(sum_of_ones(three), 3);
    }
    EXPECT_EQ(sum_of_ones(world), 4);
  });
}

TEST(NewGroup, RejectsRanksThatAreNotThere) {
  run_ranks(2, [](Group& world) {
    for (const std::vector<int>& ranks : {std::vector<int>{0, 2}, {0, 0}, {-1}, {}}) {
      EXPECT_THROW((void)world.new_group(ranks), UsageError);
    }
  });
}

// The store still has what the ranks left there for the world before: a rank that comes first must
// not take the address of one that has not come yet. Ranks take turns in coming late.
TEST(Group, AWorldThatWasDestroyedIsFormedAgainOnTheSameStore) {
  for (const std::string backend : {"gloo", "shm", testing::kTwoHosts}) {
    run_ranks(
        3,
        [&](Group& first) {
          EXPECT_EQ(sum_of_ones(first), 3);
          first.destroy();
          const std::string name = backend == testing::kTwoHosts ? "lockstep" : backend;
          for (int i = 0; i < 6; ++i) {
            if (first.rank() == i % 3) {
              std::this_thread::sleep_for(std::chrono::milliseconds(50));
            }
            Group world =
                init_process_group({.backend = name, .timeout = std::chrono::seconds(60)});
            EXPECT_EQ(sum_of_ones(world), 3);
            const int left_out = i % 2;  // Other ranks each time.
            const Group pair = world.new_group({2, 1 - left_out});
            if (pair.is_member()) {
              EXPECT_EQ(sum_of_ones(pair), 2);
            }
            world.barrier();
            world.destroy();
          }
        },
        backend);
  }
}

// Rank 0 gives a group up for which rank 1 did not come. In the next world rank 1 is there first:
// it must not take what rank 0 left for that group.
TEST(Group, AGroupThatCouldNotBeFormedIsFormedInTheNextWorld) {
  const int port = listen_on({"127.0.0.1", 0}).port;
  spawn(2, [&](int rank) {
    const InitOptions options{.backend = "shm",  // Leaves its address before anybody comes.
                              .init_method = "tcp://127.0.0.1:" + std::to_string(port),
                              .rank = rank,
                              .world_size = 2,
                              .timeout = std::chrono::seconds(5)};
    Group first = init_process_group(options);
    if (rank == 0) {
      EXPECT_THROW((void)first.new_group({0, 1}), PeerError);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5500));
    }
    first.destroy();
    Group second = init_process_group(options);
    EXPECT_EQ(sum_of_ones(second), 2);
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    EXPECT_EQ(sum_of_ones(second.new_group({0, 1})), 2);
    second.barrier();
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed, see above");
    }
  });
}

// Rank 0 serves the store. A rank that is faster comes back while rank 0 still leaves, and a handle
// of the world before may still be there.
TEST(Group, AWorldIsFormedAgainWhereRankZeroServesTheStore) {
  const int port = listen_on({"127.0.0.1", 0}).port;
  for (const std::string backend : {"gloo", "lockstep"}) {
    spawn(3, [&](int rank) {
      std::vector<Group> before;
      for (int i = 0; i < 6; ++i) {
        Group world = init_process_group({.backend = backend,
                                          .init_method = "tcp://127.0.0.1:" + std::to_string(port),
                                          .rank = rank,
                                          .world_size = 3,
                                          .timeout = std::chrono::seconds(60)});
        EXPECT_EQ(sum_of_ones(world), 3);
        if (rank == i % 3) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        world.destroy();
        before.push_back(world);
      }
      if (::testing::Test::HasFailure()) {
        throw std::runtime_error("expectations failed, see above");
      }
    });
  }
}

TEST(Group, CanBeDroppedAndMadeAgainInTheSameProcess) {
  run_ranks(2, [](Group& world) {
    for (int i = 0; i < 3; ++i) {
      Group pair = world.new_group({0, 1});
      EXPECT_EQ(sum_of_ones(pair), 2);
      pair.destroy();
      pair.destroy();
      EXPECT_THAT([&] { sum_of_ones(pair); }, ThrowsMessage<UsageError>(HasSubstr("destroyed")));
    }
  });
}

TEST(Group, GivesC10dUsersAProcessGroup) {
  run_ranks(2, [](Group& world) {
    const auto group = world.process_group();
    EXPECT_EQ(group->getRank(), world.rank());
    EXPECT_EQ(group->getSize(), 2);
    std::vector<at::Tensor> tensors{at::full({2}, 1.0)};
    group->allreduce(tensors)->wait();  // Through c10d's dispatcher.
    EXPECT_EQ(tensors[0].sum().item<double>(), 4);
  });
}

TEST(Group, SaysWhatItLacksForADevice) {
  run_ranks(1, [](Group& world) {
    EXPECT_THAT([&] { (void)world.backend(at::kMPS); },
                ThrowsMessage<UsageError>(HasSubstr("no backend for mps tensors")));
  });
}

}  // namespace
}  // namespace lockstep
