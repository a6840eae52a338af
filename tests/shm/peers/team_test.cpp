#include "lockstep/shm/peers/team.h"

#include <gmock/gmock.h>

#include <cstring>

#include "lockstep/base/error.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::on_processes;
using testing::on_threads;
using testing::soon;
using testing::tensor_of;
using ::testing::ThrowsMessage;

TEST(Team, OfTooManyRanksIsRefused) {
  EXPECT_THAT([] { Team::in_process(kMaxRanks + 1); },
              ThrowsMessage<UsageError>(HasSubstr("1025")));
  EXPECT_THROW(Team::in_process(0), UsageError);
  testing::FolderBoard board;
  EXPECT_THROW(Team::join(2, 2, board, soon()), UsageError);
}

// Each of these differs on rank 1 in one thing.
struct Difference {
  const char* name;
  void (*call)(Team&);
  const char* shown;
};

void sum_floats(Team& team, std::size_t count, ReduceOp op = ReduceOp::kSum) {
  std::vector<float> values(count);
  all_reduce(team, tensor_of(values), {.reduction = {DType::kFloat, op}}, soon());
}

const Difference kDifferences[] = {
    {"Kind", [](Team& team) { barrier(team, soon()); }, "calls barrier"},
    {"Count", [](Team& team) { sum_floats(team, 5); }, "5 elements: 20 bytes"},
    {"LargeCount", [](Team& team) { sum_floats(team, 50000); }, "50000 elements"},
    {"Operation", [](Team& team) { sum_floats(team, 4, ReduceOp::kMax); }, "max, float32"},
    {"Dtype",
     [](Team& team) {
       std::vector<std::int32_t> values(4);
       all_reduce(team, tensor_of(values), {.reduction = {DType::kInt32, ReduceOp::kSum}}, soon());
     },
     "int32"},
    {"Root",
     [](Team& team) {
       std::vector<float> values(4);
       reduce(team, tensor_of(values), {}, 1, soon());
     },
     "root 1"},
};

class ShmMismatch : public ::testing::TestWithParam<Difference> {};
INSTANTIATE_TEST_SUITE_P(Of, ShmMismatch, ::testing::ValuesIn(kDifferences),
                         [](const auto& difference) { return std::string(difference.param.name); });

TEST_P(ShmMismatch, IsAnErrorOnAllRanksThatShowsBothSides) {
  const auto& difference = GetParam();
  on_threads(3, [&](Team& team) {
    sum_floats(team, 4);
    EXPECT_THAT([&] { team.rank() == 1 ? difference.call(team) : sum_floats(team, 4); },
                ThrowsMessage<PeerError>(
                    AllOf(HasSubstr("#2 "), HasSubstr("on rank " + std::to_string(team.rank())),
                          HasSubstr("calls all_reduce(sum, float32, 4 elements: 16 bytes)"),
                          HasSubstr("rank 1 (pid "), HasSubstr(difference.shown))));
  });
}

TEST(ShmMismatch, OfTheRootOfOneCollectiveIsShown) {
  on_processes(2, [](Team& team) {
    std::vector<float> values(4);
    EXPECT_THAT([&] { broadcast(team, tensor_of(values), DType::kFloat, team.rank(), soon()); },
                ThrowsMessage<PeerError>(AllOf(HasSubstr("root 0"), HasSubstr("root 1"))));
  });
}

TEST(Team, CountsCollectives) {
  on_threads(2, [](Team& team) {
    EXPECT_EQ(team.sequence(), 0U);
    sum_floats(team, 4);
    sum_floats(team, 40000);
    EXPECT_EQ(team.sequence(), 2U);
    EXPECT_EQ(team.what(), "all_reduce #2 (sum, float32, 40000 elements: 160000 bytes) on rank " +
                               std::to_string(team.rank()) + " of 2");
  });
}

TEST(Team, ManyTeamsLiveInOneProcess) {
  on_processes(2, [](Team& team) {
    testing::FolderBoard unused;
    sum_floats(team, 4);
    const auto others = Team::in_process(1, testing::small_options());
    sum_floats(*others[0], 4);
    sum_floats(team, 4);
  });
}

TEST(Team, StagingBuffersWithoutALineForEachRankAreAUsageError) {
  EXPECT_THAT([] { Team::in_process(3, {.staging_bytes = 191, .arena_bytes = 4096}); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("staging_bytes is 191")));
  EXPECT_NO_THROW(Team::in_process(3, {.staging_bytes = 192, .arena_bytes = 4096}));
}

}  // namespace
}  // namespace lockstep::shm
