#include <gmock/gmock.h>
#include <unistd.h>

#include <stdexcept>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

bool is_never_done() { return false; }

TEST(ShmWaitFor, RanksThatAreBehindAreNamedAtTheDeadline) {
  run_ranks(
      3,
      [](Group& world) {
        const auto steps = world.rank() == 1 ? 12 : 13;
        world.report({.phase = Phase::kBackward, .step = static_cast<std::uint64_t>(steps)});
        world.barrier();
        if (world.rank() == 0) {
          EXPECT_THAT(
              [&] { world.wait_for("the GPU", is_never_done, {.timeout = milliseconds(300)}); },
              ThrowsMessage<PeerError>(
                  AllOf(StartsWith("the GPU on rank 0 of 3: timed out: rank 1 (pid "),
                        HasSubstr("in backward of step 12, its last call: barrier #1"),
                        HasSubstr("is behind after 300 ms"), ::testing::Not(HasSubstr("rank 2")))));
          world.store()->set("done", std::vector<std::uint8_t>{1});
        } else {
          world.store()->wait({"done"});
          EXPECT_THAT([&] { world.wait_for("the GPU", is_never_done); },
                      ThrowsMessage<PeerError>(HasSubstr("rank 0")))
              << "the group has ended for all";
        }
      },
      "shm");
}

TEST(ShmWaitFor, SaysThatNoRankIsBehind) {
  run_ranks(
      2,
      [](Group& world) {
        world.report({.phase = Phase::kBackward, .step = 13});
        world.barrier();
        EXPECT_THAT(
            [&] { world.wait_for("the GPU", is_never_done, {.timeout = milliseconds(300)}); },
            ThrowsMessage<PeerError>(
                ::testing::AnyOf(HasSubstr("no rank of this host is behind this one, which "
                                           "is in backward of step 13"),
                                 HasSubstr(" gave up waiting (in backward"))));
        world.store()->add("failed", 1);
        while (world.store()->add("failed", 0) < 2) {
          ::usleep(10000);
        }
      },
      "shm");
}

// A GPU may have work of this rank alone behind the last sum.
TEST(ShmWaitFor, ARankThatHasDoneAsMuchMayLeave) {
  run_ranks(
      2,
      [](Group& world) {
        world.report({.phase = Phase::kBetweenSteps, .step = 13});
        world.barrier();
        if (world.rank() == 1) {
          const auto store = world.store();
          world.destroy();
          store->wait({"done"});
          return;
        }
        const auto due = std::chrono::steady_clock::now() + milliseconds(300);
        world.wait_for("the GPU", [&] { return std::chrono::steady_clock::now() >= due; });
        world.store()->set("done", std::vector<std::uint8_t>{1});
      },
      "shm");
}

TEST(ShmWaitFor, ARankThatLeavesBehindThisOneIsAnError) {
  run_ranks(
      2,
      [](Group& world) {
        const auto phase = world.rank() == 0 ? Phase::kBackward : Phase::kForward;
        world.report({.phase = phase, .step = 13});
        world.barrier();
        if (world.rank() == 1) {
          const auto store = world.store();
          world.destroy();
          store->wait({"done"});
          return;
        }
        EXPECT_THAT(
            [&] { world.wait_for("the GPU", is_never_done); },
            ThrowsMessage<PeerError>(AllOf(StartsWith("the GPU on rank 0 of 2: rank 1 (pid "),
                                           HasSubstr("left the group (in forward of step 13"))));
        world.store()->set("done", std::vector<std::uint8_t>{1});
      },
      "shm");
}

// It had begun no later step than others, but its part of a sum may be missing.
TEST(ShmWaitFor, ARankThatLeavesByAnErrorIsAnErrorOfAll) {
  run_ranks(
      2,
      [](Group& world) {
        world.report({.phase = Phase::kBetweenSteps, .step = 13});
        world.barrier();
        if (world.rank() == 1) {
          const auto store = world.store();
          try {
            throw std::runtime_error("a bad file");
          } catch (const std::runtime_error&) {
            world.destroy();
          }
          store->wait({"done"});
          return;
        }
        EXPECT_THAT([&] { world.wait_for("the GPU", is_never_done); },
                    ThrowsMessage<PeerError>(
                        AllOf(HasSubstr("rank 1 (pid "),
                              HasSubstr("left the group (stopped by an error in or after step "
                                        "13"))));
        world.store()->set("done", std::vector<std::uint8_t>{1});
      },
      "shm");
}

}  // namespace
}  // namespace lockstep
