#include <gmock/gmock.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>
#include <string>
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

// Rank 1 reports this and leaves while rank 0, which is past step 13, waits in `body`.
void while_rank_1_leaves(const Progress& progress, const std::function<void(Group&)>& leave,
                         const std::function<void(Group&)>& body) {
  run_ranks(
      2,
      [&](Group& world) {
        const Progress past{.phase = Phase::kBetweenSteps, .step = 13};
        world.report(world.rank() == 0 ? past : progress);
        world.barrier();
        const auto store = world.store();
        if (world.rank() == 1) {
          leave(world);
          store->wait({"done"});
        } else {
          body(world);
          store->set("done", std::vector<std::uint8_t>{1});
        }
      },
      "shm");
}

void leave_in_order(Group& world) { world.destroy(); }

void leave_by_an_error(Group& world) {
  try {
    throw std::runtime_error("a bad file");
  } catch (const std::runtime_error&) {
    world.destroy();
  }
}

void expect_error(Group& world, const std::string& words) {
  EXPECT_THAT([&] { world.wait_for("the GPU", is_never_done); },
              ThrowsMessage<PeerError>(
                  AllOf(StartsWith("the GPU on rank 0 of 2: rank 1 (pid "), HasSubstr(words))));
}

// A GPU may have work of this rank alone behind the last sum.
TEST(ShmWaitFor, ARankThatHasDoneAsMuchMayLeave) {
  while_rank_1_leaves({.phase = Phase::kBetweenSteps, .step = 13}, leave_in_order,
                      [](Group& world) {
                        using Clock = std::chrono::steady_clock;
                        const auto due = Clock::now() + milliseconds(300);
                        world.wait_for("the GPU", [&] { return Clock::now() >= due; });
                      });
}

TEST(ShmWaitFor, ARankThatLeavesBehindThisOneIsAnError) {
  while_rank_1_leaves({.phase = Phase::kForward, .step = 13}, leave_in_order, [](Group& world) {
    expect_error(world, "left the group (in forward of step 13");
  });
}

// It had begun no later step than others, but its part of a sum may be missing.
TEST(ShmWaitFor, ARankThatLeavesByAnErrorIsAnErrorOfAll) {
  while_rank_1_leaves(
      {.phase = Phase::kBetweenSteps, .step = 13}, leave_by_an_error, [](Group& world) {
        expect_error(world, "left the group (stopped by an error in or after step 13");
      });
}

}  // namespace
}  // namespace lockstep
