#include "lockstep/comm/late_ranks.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <thread>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/process/crash_report.h"
#include "tests/comm/ranks.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::kTwoHosts;
using lockstep::testing::run_ranks;
using ::testing::EndsWith;

const ProgressBoard& board_of(const Group& group) {
  return dynamic_cast<const ProgressBoard&>(*group.backend());
}

std::string late_ranks(const Group& group) {
  return text_of_late_ranks(board_of(group), group.rank(), group.size());
}

TEST(LateRanks, AreNamedWithWhatTheyToldLast) {
  run_ranks(
      4,
      [](Group& world) {
        EXPECT_EQ(late_ranks(world), "");
        world.barrier();
        if (world.rank() != 3) {
          const auto step = static_cast<std::uint64_t>(world.rank() == 1 ? 12 : 13);
          world.report({.phase = Phase::kBackward, .step = step});
        }
        world.barrier();
        if (world.rank() == 0) {
          EXPECT_EQ(late_ranks(world),
                    "; behind this rank, which is in backward of step 13: rank 1 (in backward of "
                    "step 12), rank 3 (before its first step)");
        } else if (world.rank() == 3) {
          EXPECT_EQ(late_ranks(world), "");
        }
        world.barrier();
      },
      "shm");
}

TEST(LateRanks, OfOtherHostsAreNotKnown) {
  run_ranks(
      4,
      [](Group& world) {
        const auto step = static_cast<std::uint64_t>(10 - world.rank());
        world.report({.phase = Phase::kForward, .step = step});
        world.barrier();
        const std::string behind[] = {
            "; behind this rank, which is in forward of step 10: rank 1 (in forward of step 9)",
            "; no rank of this host is behind this rank, which is in forward of step 9",
            "; behind this rank, which is in forward of step 8: rank 3 (in forward of step 7)",
            "; no rank of this host is behind this rank, which is in forward of step 7"};
        EXPECT_EQ(late_ranks(world), behind[world.rank()]);
        world.barrier();
      },
      kTwoHosts);
}

// LibTorch's words, in which rank 0 is the one that waited.
constexpr const char* kTimeout =
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE) "
    "ran for 20001 milliseconds before timing out.";

enum class Group0 { kLives, kHasEnded };

// The crash report of rank 0, in which a thread throws this, when rank 1 is two steps behind.
std::string report_of(const std::string& exception, Group0 group) {
  const test::TemporaryFolder folder;
  const auto path = folder.file("error.json");
  const auto run = [&](int rank) {
    if (rank == 0 &&
        (::freopen("/dev/null", "w", stderr) == nullptr ||
         !install_crash_report(Environment({{"TORCHELASTIC_ERROR_FILE", path}, {"RANK", "0"}})))) {
      return 1;
    }
    const auto world = init_process_group({.backend = "shm",
                                           .init_method = "file://" + folder.file("store"),
                                           .rank = rank,
                                           .world_size = 2,
                                           .timeout = std::chrono::seconds(60)});
    const auto step = static_cast<std::uint64_t>(rank == 0 ? 13 : 11);
    world.report({.phase = Phase::kForward, .step = step});
    world.barrier();
    std::optional<LateRanksInCrashReport> late(std::in_place, board_of(world), rank, 2, "");
    if (group == Group0::kHasEnded) {
      late.reset();
    }
    if (rank == 0) {
      std::thread([&] { throw std::runtime_error(exception); }).join();
    }
    EXPECT_THROW(world.barrier(), PeerError);
    return ::testing::Test::HasFailure() ? 1 : 0;
  };
  const auto first = test::fork_child([&] { return run(0); });
  const auto second = test::fork_child([&] { return run(1); });
  test::wait_for(first);
  EXPECT_EQ(test::wait_for(second), 0);
  return nlohmann::json::parse(read_file(path)).at("message").at("message");
}

TEST(LateRanks, AreInTheCrashReportOfACollectiveThatTimedOut) {
  EXPECT_THAT(report_of(kTimeout, Group0::kLives),
              EndsWith("timing out.; behind this rank, which is in forward of step 13: rank 1 (in "
                       "forward of step 11)"));
  EXPECT_THAT(report_of("out of memory", Group0::kLives), EndsWith("out of memory"));
  EXPECT_THAT(report_of(kTimeout, Group0::kHasEnded), EndsWith("before timing out."));
}

}  // namespace
}  // namespace lockstep::comm
