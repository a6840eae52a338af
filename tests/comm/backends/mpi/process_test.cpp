#include "lockstep/comm/backends/mpi/process.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <string>

#include "tests/comm/ranks.h"

namespace lockstep::comm {
namespace {

TEST(MpiProcess, KnowsItsPlaceInTheJob) {
  const auto& process = MpiProcess::get(Deadline::in(std::chrono::seconds(60)));
  EXPECT_EQ(std::to_string(process.rank()), std::getenv("OMPI_COMM_WORLD_RANK"));
  EXPECT_EQ(std::to_string(process.size()), std::getenv("OMPI_COMM_WORLD_SIZE"));
  EXPECT_EQ(MpiProcess::ranks_started(), process.size());
}

TEST(MpiProcess, AGroupHasTheOrderOfItsList) {
  testing::run_ranks(
      2,
      [](Group& world) {
        auto& process = MpiProcess::get(Deadline::in(std::chrono::seconds(60)));
        const auto group = process.make_group({1, 0}, 77, Deadline::in(std::chrono::seconds(60)));
        int rank = -1;
        process.engine().run_here([&] { process.mpi().comm_rank(group->comm, &rank); });
        EXPECT_EQ(rank, 1 - world.rank());
      },
      "mpi");
}

}  // namespace
}  // namespace lockstep::comm
