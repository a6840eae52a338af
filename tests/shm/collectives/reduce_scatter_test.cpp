#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using testing::on_processes;
using testing::on_threads;
using testing::pattern;
using testing::soon;
using testing::tensor_of;

constexpr Fold kSumOfLongs{.reduction = {DType::kInt64, ReduceOp::kSum}};

// Each rank's parts are of unequal sizes, up to several chunks.
std::size_t count_for(int receiver, std::size_t count) {
  return count * static_cast<std::size_t>(receiver % 3 + 1);
}
std::vector<std::int64_t> part(int from, int to, std::size_t count) {
  return pattern<std::int64_t>(from * 5 + to, count_for(to, count));
}

class ShmReduceScatter : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShmReduceScatter, ::testing::Values(1, 2, 3, 4));

TEST_P(ShmReduceScatter, EachRankGetsTheSumOfItsParts) {
  on_threads(GetParam(), [](Team& team) {
    for (const std::size_t count : {0UL, 1UL, 100UL, 512UL, 3000UL}) {
      std::vector<std::vector<std::int64_t>> parts;
      std::vector<Tensor> inputs;
      for (int to = 0; to < team.size(); ++to) {
        parts.push_back(part(team.rank(), to, count));
      }
      for (auto& values : parts) {
        inputs.push_back(tensor_of(values));
      }
      std::vector<std::int64_t> output(count_for(team.rank(), count));
      reduce_scatter(team, tensor_of(output).data, inputs, kSumOfLongs, soon());
      std::vector<std::int64_t> expected(output.size());
      for (int from = 0; from < team.size(); ++from) {
        const auto values = part(from, team.rank(), count);
        for (std::size_t i = 0; i < values.size(); ++i) {
          expected[i] += values[i];
        }
      }
      ASSERT_EQ(output, expected) << count;
    }
  });
}

TEST(ShmReduceScatter, CountsThatDifferAreAnErrorOnAllRanks) {
  on_processes(2, [](Team& team) {
    std::vector<std::int64_t> a(team.rank() == 0 ? 3 : 4);
    std::vector<std::int64_t> b(team.rank() == 0 ? 5 : 4);
    std::vector<std::int64_t> output(5);
    EXPECT_THAT(
        [&] {
          reduce_scatter(team, tensor_of(output).data, {tensor_of(a), tensor_of(b)}, kSumOfLongs,
                         soon());
        },
        ::testing::ThrowsMessage<PeerError>(
            ::testing::ContainsRegex("rank 0 .* has 3 elements for rank 0 ")));
  });
}

}  // namespace
}  // namespace lockstep::shm
