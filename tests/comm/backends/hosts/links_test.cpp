#include "lockstep/comm/backends/hosts/links.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <set>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::kTwoHosts;
using lockstep::testing::run_on_hosts;
using lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(HostLinks, ARankThatEndsIsNamedOnEveryHostAndTheRestFormANewGroup) {
  run_ranks(
      4,
      [](Group& world) {
        const auto tensor = at::full({1000}, 1.0F);
        world.all_reduce(tensor).wait();
        if (world.rank() == 3) {
          ::usleep(200000);
          ::_exit(0);  // Not killed, so that the others are left alone.
        }
        const auto begin = std::chrono::steady_clock::now();
        EXPECT_THAT([&] { world.all_reduce(tensor).wait(); },
                    ThrowsMessage<PeerError>(HasSubstr("rank 3")));
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
        const auto rest = world.new_group({0, 1, 2});
        const auto sum = at::full({1000}, 1.0F);
        rest.all_reduce(sum).wait();
        EXPECT_EQ(sum[999].item<float>(), 3);
      },
      kTwoHosts);
}

TEST(HostLinks, ARankThatDoesNotComeIsAnErrorAtTheDeadlineOnAll) {
  run_ranks(
      4,
      [](Group& world) {
        if (world.rank() == 3) {
          ::usleep(1500000);
          return;
        }
        const auto tensor = at::full({10}, 1.0F);
        EXPECT_THAT(
            [&] { world.all_reduce(tensor, {.timeout = std::chrono::milliseconds(700)}).wait(); },
            ThrowsMessage<PeerError>(AllOf(HasSubstr("on rank " + std::to_string(world.rank())),
                                           AnyOf(HasSubstr("rank 3"), HasSubstr("ranks 2, 3")))));
        EXPECT_THROW(world.all_reduce(tensor).wait(), PeerError) << "it is broken now";
        ::usleep(1500000);
      },
      kTwoHosts);
}

// Any number of hosts, and of late ones: their own network threads say that they have not begun.
TEST(HostLinks, LateHostsAreNamedAtTheDeadlineOnAll) {
  const auto expect_named = [](const std::vector<int>& ranks_on_hosts, const std::set<int>& late,
                               const std::string& names) {
    run_on_hosts(ranks_on_hosts, [&](Group& world) {
      const auto tensor = at::full({10}, 1.0F);
      world.all_reduce(tensor).wait();
      if (!late.contains(world.rank())) {
        EXPECT_THAT(
            [&] { world.all_reduce(tensor, {.timeout = std::chrono::milliseconds(700)}).wait(); },
            ThrowsMessage<PeerError>(HasSubstr(names)));
      } else {
        world.store()->wait({"done"});
        EXPECT_THAT([&] { world.all_reduce(tensor).wait(); },
                    ThrowsMessage<PeerError>(HasSubstr(names)));
      }
      const auto punctual = world.size() - static_cast<int>(late.size());
      if (world.store()->add("failed", 1) == punctual) {
        world.store()->set("done", std::vector<std::uint8_t>{1});
      }
      ::usleep(1000000);
    });
  };
  expect_named({1, 1, 1}, {1}, "rank 1) has not arrived in time");
  expect_named({1, 1, 1, 1}, {1}, "rank 1) has not arrived in time");
  expect_named({1, 1, 2, 1}, {4}, "rank 4) has not arrived in time");
  expect_named({1, 1}, {0}, "rank 0) has not arrived in time");
}

TEST(HostLinks, AllHostsThatAreLateAreNamed) {
  run_on_hosts({1, 1, 1, 1}, [](Group& world) {
    if (world.rank() % 2 == 1) {
      world.store()->wait({"rank 0 is done", "rank 2 is done"});
      return;
    }
    const auto tensor = at::full({10}, 1.0F);
    EXPECT_THAT(
        [&] { world.all_reduce(tensor, {.timeout = std::chrono::milliseconds(700)}).wait(); },
        ThrowsMessage<PeerError>(
            AllOf(HasSubstr("rank 1), host"), HasSubstr("rank 3) have not arrived in time"))));
    world.store()->set("rank " + std::to_string(world.rank()) + " is done",
                       std::vector<std::uint8_t>{1});
  });
}

// Gloo may forget a send that begins while its connection is cut: in one of six of these rounds.
TEST(HostLinks, AnErrorInsideOneHostEndsTheOthersWaits) {
  run_ranks(
      4,
      [](Group& world) {
        for (int round = 0; round < 10; ++round) {
          const auto begin = std::chrono::steady_clock::now();
          {
            auto group = world.new_group({0, 1, 2, 3});
            all_reduce(group, at::full({10}, 1.0F))->wait();
            const auto op = world.rank() == 0 ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
            EXPECT_THROW(all_reduce(group, at::full({10}, 1.0F), op)->wait(), PeerError);
          }  // Where it is destroyed, a work that nobody waited for may be stuck.
          EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
          world.barrier();
        }
      },
      kTwoHosts);
}

TEST(HostLinks, ARankThatIsLateIsNotTakenForOneThatIsGone) {
  run_ranks(
      4,
      [](Group& world) {
        if (world.rank() == 3) {
          ::usleep(2500000);
        }
        const auto tensor = at::full({10}, 1.0F);
        all_reduce(world, tensor)->wait();
        EXPECT_EQ(tensor[9].item<float>(), 4);
      },
      kTwoHosts);
}

}  // namespace
}  // namespace lockstep::comm
