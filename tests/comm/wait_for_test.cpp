#include "lockstep/comm/wait_for.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kTwoHosts;
using testing::run_ranks;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

using Clock = std::chrono::steady_clock;

bool never() { return false; }

TEST(WaitFor, EndsWhenItIsDone) {
  for (const std::string backend : {"gloo", "shm", kTwoHosts}) {
    run_ranks(
        2,
        [](Group& world) {
          const auto due = Clock::now() + milliseconds(120);
          world.wait_for("the GPU", [&] { return Clock::now() >= due; });
          EXPECT_GE(Clock::now(), due);
          world.barrier();  // It may be used as before.
        },
        backend);
  }
}

TEST(WaitFor, ARankThatEndsIsNamedSoon) {
  for (const std::string backend : {"shm", kTwoHosts}) {
    run_ranks(
        4,
        [&](Group& world) {
          world.barrier();
          if (world.rank() == 3) {
            ::usleep(200000);
            ::_exit(0);  // Not killed, so that the others are left alone.
          }
          const auto begun = Clock::now();
          EXPECT_THAT([&] { world.wait_for("step 7 on the GPU", never); },
                      ThrowsMessage<PeerError>(AllOf(
                          StartsWith("step 7 on the GPU on rank " + std::to_string(world.rank())),
                          HasSubstr("rank 3"), HasSubstr("ended"))));
          // Ranks of other hosts learn of it through the store.
          EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
          world.store()->add("failed", 1);
          while (world.store()->add("failed", 0) < 3) {
            ::usleep(10000);
          }
        },
        backend);
  }
}

TEST(WaitFor, HasADeadlineWhereNothingIsKnownOfTheOthers) {
  for (const std::string backend : {"gloo", kTwoHosts}) {
    run_ranks(
        2,
        [](Group& world) {
          EXPECT_THAT([&] { world.wait_for("the GPU", never, {.timeout = milliseconds(300)}); },
                      ThrowsMessage<PeerError>(HasSubstr("not done after 300 ms")));
        },
        backend);
  }
}

// A GPU may have work of this rank alone behind the last sum. Connections of a rank that has left
// count as an end of the group after two seconds elsewhere.
TEST(WaitFor, ARankOfAnotherHostMayLeaveInOrder) {
  run_ranks(
      2,
      [](Group& world) {
        world.all_reduce(at::ones({100000})).wait();
        if (world.rank() == 1) {
          const auto store = world.store();
          world.destroy();
          store->wait({"done"});
          return;
        }
        const auto due = Clock::now() + milliseconds(4500);
        world.wait_for("the GPU", [&] { return Clock::now() >= due; });
        world.store()->set("done", std::vector<std::uint8_t>{1});
      },
      kTwoHosts);
}

// It would time out at once, and end the group for all.
TEST(WaitFor, ATimeoutOfNothingIsRefused) {
  run_ranks(
      2,
      [](Group& world) {
        for (const int limit : {0, -1}) {
          EXPECT_THAT([&] { world.wait_for("the GPU", never, {.timeout = milliseconds(limit)}); },
                      ThrowsMessage<UsageError>(HasSubstr("expected more than 0")));
        }
        world.barrier();
      },
      "shm");
}

TEST(WaitFor, IsRefusedAfterTheEnd) {
  run_ranks(1, [](Group& world) {
    world.destroy();
    EXPECT_THROW(world.wait_for("the GPU", never), UsageError);
  });
}

TEST(Synchronize, OnTheCpuNothingIsWaitedFor) {
  run_ranks(2, [](Group& world) { world.synchronize(at::kCPU); }, "shm");
}

}  // namespace
}  // namespace lockstep
